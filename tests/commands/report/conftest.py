"""A run folder as a fit, a test and a predict leave it, without the fit; and a page taken apart."""

import csv
import json
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import yaml
from PIL import Image

from vit_lightning.files import spreadsheet_cell

VOID = {"meta", "img", "br", "link", "input", "hr"}
CONFIG = {
    "seed_everything": 3,
    "trainer": {"max_epochs": 2, "max_steps": -1, "gradient_clip_val": 1.0, "precision": None},
    "model": {
        "class_path": "vit_lightning.classifier.Classifier",
        "init_args": {
            "net": {"variant": "Ti/16", "patch": 8, "pool": "gap"},
            "optim": {"name": "adamw", "lr": 0.001, "weight_decay": 0.05},
            "schedule": {"decay": "cosine", "warmup_steps": 5},
            "weights": None,
        },
    },
    "data": {
        "class_path": "datamodules.synthetic.Synthetic",
        "init_args": {"image_size": [32, 32], "batch_size": 8, "augment": {"flip": True, "crop": "none"}},
    },
}
NAMES = ("cat", "dog", "owl")


class Page(HTMLParser):
    """Tags, attributes and text of a page, whose tags must be closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.style = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.words.append(" ")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        """What a person reads, without the places of lines."""
        return " ".join("".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of every tag of a name."""
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def page() -> Callable[[str], Page]:
    return Page


def png(side: int = 16) -> bytes:
    content = BytesIO()
    Image.fromarray(np.arange(side * side * 3, dtype=np.uint8).reshape(side, side, 3)).save(content, "PNG")
    return content.getvalue()


def write_csv(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        csv.writer(file, lineterminator="\n").writerows([spreadsheet_cell(cell) for cell in row] for row in rows)


def metrics(steps: int = 20, scale: float = 1.0) -> list[list[Any]]:
    columns = ["lr", "perf/data_wait", "perf/images_per_s", "step", "train/loss", "val/loss", "val/top1"]
    rows = [[1e-3 * scale, 0.1, 200.0 * scale, step, 2.0 / (step + 1), "", ""] for step in range(0, steps, 2)]
    return [columns, *rows, ["", "", "", steps - 1, "", 0.5 * scale, 0.75]]


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Make a run folder; names of classes, and settings by dotted name, may be given."""

    def make(name: str = "pets/0", classes: Sequence[str] = NAMES, **settings: Any) -> Path:
        folder = tmp_path / "runs" / name
        (folder / "checkpoints").mkdir(parents=True)
        with ZipFile(folder / "checkpoints/last.ckpt", "w") as file:  # whole, and of nothing
            file.writestr("empty", "")
        config = json.loads(json.dumps(CONFIG))
        for dotted, value in settings.items():
            *path, last = dotted.split("__")
            place = config
            for key in path:
                place = place[key]
            place[last] = value
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        facts = {
            "device": "cpu",
            "cpus": 2,
            "versions": {"torch": "2.9"},
            "command": ["main", "fit"],
            "folder": str(folder),
        }
        (folder / "env.json").write_text(json.dumps(facts))
        write_csv(folder / "metrics.csv", metrics())
        scores = {"verb": "test", "scores": {"test/loss": 0.4, "test/top1": 0.8}, "images": 30}
        (folder / "test.json").write_text(json.dumps(scores))
        shares = [[name, 10, 0.9, "" if number else 0.5, 0.7] for number, name in enumerate(classes)]
        write_csv(folder / "test.classes.csv", [["class", "support", "precision", "recall", "f1"], *shares])
        square = [[name, *(7 if i == j else i for j in range(len(classes)))] for i, name in enumerate(classes)]
        write_csv(folder / "test.confusion.csv", [["true", *classes], *square])
        wrong = [[f"{name}.jpg", name, classes[0], "0.91"] for name in classes[1:]]
        write_csv(folder / "test.mistakes.csv", [["image", "label", "predicted", "probability"], *wrong])
        return folder

    return make
