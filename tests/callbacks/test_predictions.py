"""predictions.csv: rows as they come, any file name, and what a stop leaves."""

import csv
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import Callback
from PIL import Image

from vit_lightning.callbacks.predictions import PartFile, _digest
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.files import spreadsheet_cell

NAMES = (
    b"a.png",
    b"\xff\xfe.png",
    "caf\u00e9.png".encode(),
    b"line\nbreak.png",
    b"=1+1.png",
    b"-2.png",
    b'q"uote,.png',
)
WORDS = ("--data", "Images", "--data.files", "photos", "--ckpt_path", "net.ckpt", "--data.num_workers", 0)
WORDS += ("--trainer.accelerator", "cpu", "--data.batch_size", 2)


class Stop(Callback):
    """Ends the run as a kill would, after some batches."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def on_predict_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        if batch_idx == self.batches:
            raise RuntimeError("killed")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def photos(app, tmp_path):
    """Images of such names, and a net whose head tells them apart."""
    (tmp_path / "photos").mkdir()
    for shade, name in enumerate(NAMES):
        Image.new("RGB", (8, 8), (shade * 30, 255 - shade * 20, shade)).save(
            os.fsdecode(os.fsencode(tmp_path / "photos") + b"/" + name), "PNG"
        )
    torch.manual_seed(0)
    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8)
    model.configure_model()
    torch.nn.init.normal_(model.net.head.weight)
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0"}
    names = {"class_names": ["=cmd()", "b\nc", "-1"], "model": "vit_lightning.classifier.Classifier"}
    torch.save({"state_dict": model.state_dict()} | facts | names, "net.ckpt")
    return app


def test_any_name_that_a_file_system_holds_is_written_and_read_back(photos):
    done = photos("predict", *WORDS)
    assert done.code == 0, done.err
    found = rows(Path("predictions.csv"))
    expected = [spreadsheet_cell(os.path.join("photos", os.fsdecode(name))) for name in sorted(NAMES)]
    assert sorted(row["image"] for row in found) == sorted(expected)
    assert {row[f"class{k}"] for row in found for k in (1, 2, 3)} == {"'=cmd()", "b\nc", "-1"}
    assert not list(Path().glob("*.part*"))


@pytest.mark.parametrize("cut", [0, 1, 30])
def test_a_stop_leaves_what_was_done_and_a_second_call_goes_on(photos, tmp_path, monkeypatch, cut):
    assert photos("predict", *WORDS).code == 0
    whole = Path("predictions.csv").read_bytes()
    Path("predictions.csv").unlink()
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    stop = ("--trainer.callbacks+=tests.callbacks.test_predictions.Stop", "--trainer.callbacks.batches", 2)
    with pytest.raises(RuntimeError, match="killed"):
        photos("predict", *WORDS, *stop)
    (part,) = Path().glob("predictions.*.part.csv")
    assert len(rows(part)) == 2 and whole.startswith(part.read_bytes())
    part.write_bytes(part.read_bytes()[: -cut or None])
    predicted = []
    step = Classifier.predict_step
    monkeypatch.setattr(
        Classifier, "predict_step", lambda self, batch, i: predicted.append(batch) or step(self, batch, i)
    )
    done = photos("predict", *WORDS)
    assert done.code == 0, done.err
    assert Path("predictions.csv").read_bytes() == whole and not part.exists()
    assert sum(len(batch[0]) for batch in predicted) == len(NAMES) - (2 if cut == 0 else 1)


def test_another_net_begins_anew(photos):
    stop = ("--trainer.callbacks+=tests.callbacks.test_predictions.Stop", "--trainer.callbacks.batches", 2)
    with pytest.raises(RuntimeError, match="killed"):
        photos("predict", *WORDS, *stop)
    checkpoint = torch.load("net.ckpt", weights_only=True)
    torch.save(checkpoint | {"global_step": 7}, "net.ckpt")
    done = photos("predict", *WORDS)
    assert done.code == 0 and "goes on" not in done.err + done.out
    assert len(rows(Path("predictions.csv"))) == len(NAMES) and len(list(Path().glob("*.part.csv"))) == 1


class Named(list):
    """Images of these names."""

    @property
    def keys(self) -> list[str]:
        return list(self)


FACTS = {
    **{"precision": "32-true", "hparams": {"num_classes": 3}, "root": Path("photos"), "augment": "center"},
    **{"image_size": 8, "mean": (0.5,), "std": (0.5,), "keys": ["a.png", "b.png"], "content": b"trained"},
}


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        *[
            ("precision", "bf16-mixed"),
            ("hparams", {"num_classes": 4}),
            ("root", Path("others")),
            ("augment", "resize"),
        ],
        *[
            ("image_size", 16),
            ("mean", (0.4,)),
            ("std", (0.25,)),
            ("keys", ["b.png", "a.png"]),
            ("content", b"longer.."),
        ],
    ],
)
def test_rows_that_would_be_others_begin_anew(tmp_path, fact, value):
    """The digest stands for the weights, the images and how they are seen: another of them is another file."""

    def digest(**facts: object) -> str:
        facts = FACTS | facts
        (tmp_path / "net.ckpt").write_bytes(facts["content"])
        os.utime(tmp_path / "net.ckpt", (0, 0))
        seen = {name: facts[name] for name in ("root", "augment", "image_size", "mean", "std")}
        data = SimpleNamespace(**seen, predict_set=Named(facts["keys"]), predict_from=0)
        trainer = SimpleNamespace(precision=facts["precision"], datamodule=data)
        return _digest(trainer, SimpleNamespace(hparams=facts["hparams"]), str(tmp_path / "net.ckpt"))

    assert digest() == digest() != digest(**{fact: value})


def test_a_full_disk_is_one_sentence_and_keeps_the_rows(photos, monkeypatch):
    add = PartFile.add

    def full(self, lines):
        if self._file.tell():
            raise InputError(f"{self.path} cannot be written: no space left; free space there")
        add(self, lines)

    monkeypatch.setattr(PartFile, "add", full)
    done = photos("predict", *WORDS)
    assert done.code == 1 and done.err.splitlines()[-1].endswith("no space left; free space there")
    (part,) = Path().glob("predictions.*.part.csv")
    assert len(rows(part)) == 2


def test_a_file_has_one_writer(tmp_path):
    held = PartFile(tmp_path / "x.part.csv")
    with pytest.raises(InputError, match="another predict is writing"):
        PartFile(tmp_path / "x.part.csv")
    held.close()
    assert not (tmp_path / "x.part.csv").exists()


CELLS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6)


@given(lines=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4), cut=st.integers(0, 12))
def test_a_cut_row_is_dropped_and_no_other(tmp_path_factory, lines, cut):
    path = tmp_path_factory.mktemp("part") / "x.csv"
    ends = []
    for line in [("image", "error"), *lines]:
        file = PartFile(path)
        file.add([list(line)])
        file._file.close()
        ends.append(path.stat().st_size)
    with path.open("r+b") as opened:
        opened.truncate(max(0, ends[-1] - cut))
    whole = [end for end in ends if end <= ends[-1] - cut]
    file = PartFile(path)
    assert file.rows == len(whole)
    file.keep(max(0, len(whole) - 1))
    file._file.close()
    kept = [list(line) for line in [("image", "error"), *lines][: len(whole)]]
    with path.open(newline="") as opened:
        assert list(csv.reader(opened)) == (kept if len(whole) > 1 else [])


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("cat", "cat"),
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("-dash", "'-dash"),
        ("-1", "-1"),
        ("+1.5e-3", "+1.5e-3"),
        ("'=x", "''=x"),
        ("'quoted", "'quoted"),
        ("\t=1", "'\t=1"),
    ],
)
def test_a_cell_is_no_formula(text, cell):
    assert spreadsheet_cell(text) == cell
