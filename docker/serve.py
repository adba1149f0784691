"""A run folder, checkpoint or weights behind LitServe: `python docker/serve.py runs/digits/0`.

POST {"image": "<base64 of a file>"} to /predict answers {"7": 0.97, ...}. The port opens once the net is loaded; from
then on /health answers 200.
"""

import base64
import os
import sys

import litserve
from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from vit_lightning import Predictor
from vit_lightning.processes import end_with_parent, take_forks_along

EXPECTED = 'expected JSON of the form {"image": "<base64 of an image file>"}'
PORT = int(os.environ.get("PORT", 8000))


class Encoded(BaseModel):
    """What is asked for."""

    image: str


class Classify(litserve.LitAPI):
    """The scores of an image's best five classes."""

    def setup(self, device: str) -> None:
        end_with_parent()
        self.predictor = Predictor(sys.argv[1], device)
        print(f"{sys.argv[1]} is loaded: POST to /predict on port {PORT}", flush=True)

    def decode_request(self, request: Encoded) -> bytes:
        try:
            return base64.b64decode(request.image, validate=True)
        except ValueError as error:
            raise HTTPException(422, f"the image is no base64: {EXPECTED}") from error

    def predict(self, image: bytes) -> dict[str, float]:
        try:
            return self.predictor(image, top=5)
        except ValueError as error:  # an image that cannot be read is one
            raise HTTPException(422, str(error)) from error


def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
    """Answer what is asked for, whatever came instead: a form, no JSON, or JSON of another kind."""
    return JSONResponse({"detail": EXPECTED}, 422)


if __name__ == "__main__":
    take_forks_along()
    print(f"loading {sys.argv[1]}: port {PORT} answers once it is loaded", flush=True)
    server = litserve.LitServer(Classify())
    server.app.add_exception_handler(RequestValidationError, refuse)
    server.run(port=PORT, generate_client_file=False)
