"""A run folder, checkpoint or weights behind LitServe: `python docker/serve.py runs/digits/0`.

POST {"image": "<base64 of a file>"} to /predict answers {"7": 0.97, ...}; /health says when the net is loaded.
"""

import base64
import os
import sys

import litserve
from fastapi import HTTPException

from vit_lightning import Predictor


class Classify(litserve.LitAPI):
    """The scores of an image's best five classes."""

    def setup(self, device: str) -> None:
        self.predictor = Predictor(sys.argv[1], device)

    def predict(self, request: dict[str, str]) -> dict[str, float]:
        try:
            return self.predictor(base64.b64decode(request["image"], validate=True), top=5)
        except (KeyError, TypeError, ValueError) as error:  # an image that cannot be read is a ValueError too
            raise HTTPException(422, str(error)) from error


if __name__ == "__main__":
    litserve.LitServer(Classify()).run(port=int(os.environ.get("PORT", 8000)), generate_client_file=False)
