"""The model card that goes with exported weights."""

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.models import Net
from vit_lightning.models.recipe_words import effective
from vit_lightning.models.variants import described
from vit_lightning.weights.interface import PROBABILITIES, in_words, interface_of
from vit_lightning.weights.report import Report

USE = {
    "onnx": "`model.onnx` is for onnxruntime. {} Its metadata hold all this as JSON, in `input` and `output`, and the "
    "names of the classes in `class_names`.",
    "torch_export": "`torch.export.load('model.pt2').module()` is the program. {} `vit_lightning.json` inside holds "
    "all this, in `input` and `output`, and the names of the classes in `class_names`.",
    "safetensors": "`net, report = vit_lightning.weights.load_net(folder)` gives the net and what is known of it. Call "
    "`net.eval()`; it takes float32 images `b c y x` in [0, 1], less the mean and divided by the std above, channel by "
    "channel, and gives logits. `report.class_names` holds the class names.",
    "huggingface": "`transformers.pipeline('image-classification', folder)` classifies images.",
}
NORMALISING = {
    "onnx": "inside the program",
    "torch_export": "inside the program",
    "safetensors": "by the caller, with mean and std",
    "huggingface": "by the image processor, with mean and std",
}
"""Where the images are normalised."""
PROGRAMS = ("onnx", "torch_export")
LONGEST = 200
"""Characters of a name or value that a card shows."""
NO_HEAD = "The net has no head: what it gives as logits are the image's features."


def check_licence(licence: str) -> None:
    """Refuses what is no identifier of a licence: it stands in the card's header, which programs read."""
    if not re.fullmatch(r"[\w.+-]+( [\w.+-]+)*", licence):
        raise InputError(f"--licence {licence!r:.60} is no identifier; give one such as apache-2.0, mit or other")


def write_card(
    net: Net, report: Report, to: str, licence: str, figure: float, path: Path, evaluation: Augment = Augment()
) -> None:
    """Writes README.md: what the net is, how it was trained, how well it does, how to use it.

    Args:
        net: the net.
        report: what is known besides.
        to: format beside which the card lies.
        licence: identifier for the card's header.
        figure: parity of the export.
        path: the file to write.
        evaluation: how images are brought to size.
    """
    config, training = net.config, report.training
    parameters = sum(parameter.numel() for parameter in net.parameters())
    mean, std = report.normalisation(config.channels)
    name = described(config.variant, vars(config))
    facts = {
        "variant": name,
        "parameters": f"{parameters:,}",
        "image size": f"{net.image_size[0]} x {net.image_size[1]}",
        "channels": config.channels,
        "window": f"{report.window[0]:g} and {report.window[1]:g} become 0 and 1" if report.window else "8 bits",
        "classes": net.num_classes,
        "normalisation": NORMALISING[to],
        **({} if to in PROGRAMS else {"mean": mean, "std": std}),
        "began with": _place(training.get("began with", "random weights, or not stated")),
        **({"trained": training["trained"]} if "trained" in training else {}),
        "trained steps": training.get("steps", "not stated"),
        "source": _place(report.source),
        "largest relative difference from the trained net": f"{figure:.1e}",
    }
    sections = [
        f"---\nlicense: {licence}\nlibrary_name: {'transformers' if to == 'huggingface' else 'vit-lightning'}\n"
        f"pipeline_tag: image-{'classification' if net.num_classes else 'feature-extraction'}\n"
        "tags:\n- vision-transformer\n---",
        f"# {name}, {net.num_classes} classes",
        _table(facts),
        f"## Use\n\n{_use(net, report, to, evaluation)}",
    ]
    for title, key in (("Recipe", "recipe"), ("Data", "data"), ("Metrics", "metrics")):
        content = training.get(key)
        if key == "recipe" and content:
            content = {
                name: effective(name, value) if isinstance(value, Mapping) else value for name, value in content.items()
            }
        sections.append(f"## {title}\n\n{_table(_flat(content)) if content else 'Not stated in the weights.'}")
    if report.class_names:
        names = "\n".join(f"{index}. {_text(label)}" for index, label in enumerate(report.class_names))
        sections.append(f"## Classes\n\n{names}")
    text = "\n\n".join(sections) + "\n"
    path.write_bytes(text.encode(errors="backslashreplace"))  # a class folder's name may be no UTF-8


def _use(net: Net, report: Report, to: str, evaluation: Augment) -> str:
    if to == "huggingface" and (report.window or net.config.channels != 3):
        use = _by_hand(net, report)
        return " ".join(filter(None, (use, PROBABILITIES.get(report.loss or "") if net.num_classes else NO_HEAD)))
    use = USE[to].format(in_words(interface_of(net, report, evaluation))) if to in PROGRAMS else USE[to]
    if not net.num_classes:
        return f"{use.replace('image-classification', 'image-feature-extraction')} {NO_HEAD}"
    return " ".join(filter(None, (use, PROBABILITIES.get(report.loss or ""))))


def _by_hand(net: Net, report: Report) -> str:
    """What a caller of transformers must do where its pipeline, which reads 8-bit RGB, shows other images."""
    auto, (low, high) = "ForImageClassification" if net.num_classes else "", report.window or (0, 255)
    form = f"`c y x` with c = {net.config.channels}"
    given = f"`AutoImageProcessor.from_pretrained(folder)(images)` takes raw values {form} and divides by {high:g}"
    if low:
        given = (
            f"Map raw values so that {low:g} and {high:g} become 0 and 1, and clip them to that: "
            f"`AutoImageProcessor.from_pretrained(folder)(images)`, which does not rescale, takes the result, {form}"
        )
    elif report.window:
        given += f". Clip them to 0 and {high:g} first; images of 8 bits are to be multiplied by {high / 255:g}"
    return (
        f"transformers' pipelines read images of 8 bits in three channels, and do not suit this net. {given}. "
        f"`AutoModel{auto}.from_pretrained(folder)` takes its `pixel_values`."
    )


def _place(source: str) -> str:
    """An address, or of a local path the name alone."""
    return source if "://" in source else Path(source).name


def _table(values: Mapping[str, Any]) -> str:
    rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in values.items()]
    return "\n".join(["| | |", "|---|---|", *rows])


def _cell(value: Any) -> str:
    """A value on one line that neither ends its cell nor is read as HTML."""
    text = " ".join(str(value).split())
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text):,} characters)"
    return html.escape(text, quote=False).replace("|", "\\|")


def _text(value: Any) -> str:
    """A name that is shown as it is, and not read as Markdown."""
    return re.sub(r"([\\`*_\[\]~#])", r"\\\1", _cell(value))


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted names."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = json.dumps(value, default=str)
    return flat
