"""What an exported program says of itself: what goes in, what comes out, and what the caller must not do again."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.models import Net
from vit_lightning.runs import folders
from vit_lightning.weights.report import Report

INPUT, OUTPUT = "images", "logits"
COLOURS = {1: "grey", 3: "RGB"}
BANDS = "bands, in the order of the training images"
PROBABILITIES = {
    "softmax": "A softmax over the logits gives the probabilities of the classes.",
    "sigmoid": "A sigmoid of a logit gives the probability of its class; an image may show several.",
}


def evaluation_of(run: Path | None) -> Augment:
    """Return how the validation of a run brings images to size; without a run the whole image is resized.

    Raises:
        InputError: the run folder's config cannot be read.
    """
    configs = folders.configs(run) if run else []
    try:
        config = yaml.safe_load(configs[-1].read_text(encoding="utf-8")) if configs else {}
        given = (config["data"].get("init_args") or {}).get("augment") or {} if config else {}
        return Augment(**{name: given[name] for name in ("evaluation", "zoom") if name in given})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise InputError(f"{configs[-1]} is no config of a run ({error})") from error


def interface_of(net: Net, report: Report, evaluation: Augment) -> dict[str, Any]:
    """Return what a caller of a program must know, in plain types.

    Mean and std are not among it: the program normalises by itself.

    Args:
        net: the net inside.
        report: what is known besides.
        evaluation: how images are brought to size.
    """
    black, white = report.window or (0, 255)
    return {
        "input": {
            "name": INPUT,
            "type": "float32",
            "axes": "b c y x",
            "size": list(net.image_size),
            "channels": net.config.channels,
            "colours": COLOURS.get(net.config.channels, BANDS),
            "range": [0, 1],
            "black": black,
            "white": white,
            "normalisation": "inside",
            **_to_size(net, evaluation),
            "interpolation": "bilinear, antialiased",
        },
        "output": {
            "name": OUTPUT,
            "holds": "a logit for each class" if net.num_classes else "features",
            "probabilities": report.loss if net.num_classes else None,
        },
        "class_names": report.class_names,
        "net": asdict(net.config),
    }


def in_words(interface: dict[str, Any]) -> str:
    """Return the same for a person to read."""
    given: dict[str, Any] = interface["input"]
    (height, width), (black, white) = given["size"], (given["black"], given["white"])
    cover = " x ".join(f"{side:g}" for side in given["resize_to"])
    sized = f"Resize the whole image to {height} x {width}"
    if given["resize"] == "cover":
        sized = (
            f"Resize an image, its aspect kept, until it just covers {cover}, and take the middle {height} x {width}"
        )
    scaled = "8-bit values are divided by 255"
    if (black, white) != (0, 255):
        scaled += f"; of more bits, {black:g} and {white:g} become 0 and 1, and values beyond are clipped"
    return (
        f"It takes `{given['name']}`, {given['type']} `{given['axes']}` in [0, 1] with any batch, channels: "
        f"{given['colours']}; {scaled}. {sized} pixels (y x), {given['interpolation']}. Do not normalise: mean and std "
        f"are inside. It gives `{interface['output']['name']}`."
    )


def _to_size(net: Net, evaluation: Augment) -> dict[str, Any]:
    """How an image is resized and cropped, as `augment.per_image.eval_transform` does."""
    if evaluation.evaluation == "center":
        return {
            "resize": "cover",
            "resize_to": [side * evaluation.zoom for side in net.image_size],
            "crop": "center",
        }
    return {"resize": "whole", "resize_to": list(net.image_size), "crop": None}
