"""predictions.csv: rows as they come, any file name, and what a stop leaves."""

import csv
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lightning.pytorch import Callback
from PIL import Image

from vit_lightning.callbacks.prediction_files import PartFile, unused
from vit_lightning.callbacks.predictions import Predictions, _digest
from vit_lightning.classifier import Classifier
from vit_lightning.data.sampling import BROKEN
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


def test_files_are_there_before_anything_is_printed(photos, monkeypatch):
    """A reader of the output, such as head, may have gone."""

    def gone(*words: str, **how: object) -> None:
        assert not any("wrote" in word for word in words), [path.name for path in Path().iterdir()]

    monkeypatch.setattr("vit_lightning.callbacks.predictions.print", gone, raising=False)
    with pytest.raises(AssertionError, match=r"(?=.*'predictions\.csv')(?=.*'f\.npz')"):
        photos("predict", *WORDS, "--features", "f.npz")


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
    **{"image_size": 8, "mean": (0.5,), "std": (0.5,), "channels": None, "window": None},
    **{"keys": ["a.png", "b.png"], "content": b"trained"},
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
            ("channels", 4),
            ("window", (0, 4095)),
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
        seen = {name: facts[name] for name in ("root", "augment", "image_size", "channels", "window", "mean", "std")}
        data = SimpleNamespace(**seen, predict_set=Named(facts["keys"]), predict_from=0)
        trainer = SimpleNamespace(precision=facts["precision"], datamodule=data)
        return _digest(trainer, SimpleNamespace(hparams=facts["hparams"]), str(tmp_path / "net.ckpt"))

    assert digest() == digest() != digest(**{fact: value})


def test_rows_of_other_columns_begin_anew(monkeypatch):
    """So many classes of each image, of these nets, in this form."""
    trainer = SimpleNamespace(precision="32-true", datamodule=SimpleNamespace())

    def digest(top: int | None, *members: str) -> str:
        answering = SimpleNamespace(members=SimpleNamespace(paths=list(members)))
        return _digest(trainer, SimpleNamespace(hparams={}, answering=answering), None, top)

    found = [
        digest(5),
        digest(1),
        digest(None),
        digest(5, "a.ckpt"),
        digest(5, "b.ckpt"),
        digest(5, "a.ckpt", "b.ckpt"),
    ]
    monkeypatch.setattr("vit_lightning.callbacks.predictions.ROWS", "another form")
    assert len({*found, digest(5)}) == len(found) + 1


def test_another_spelling_of_the_same_place_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("net.ckpt").touch()

    def digest(root: Path, checkpoint: Path) -> str:
        data = SimpleNamespace(root=root, predict_set=Named(["a.png"]), predict_from=0)
        return _digest(
            SimpleNamespace(precision="32-true", datamodule=data), SimpleNamespace(hparams={}), str(checkpoint)
        )

    assert digest(Path("photos"), Path("net.ckpt")) == digest(tmp_path / "photos", tmp_path / "net.ckpt")


def test_where_no_image_can_be_read_nothing_is_left_to_go_on_with(photos, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/x.png").write_bytes(b"none")
    done = photos("predict", *WORDS, "--data.files", "broken")
    assert done.code == 1 and done.err.endswith(
        "error: the image cannot be read: broken/x.png: not an image of a known format; predict RUN --data.root FOLDER "
        "has the class of the run's own data read them\n"
    )
    assert not list(tmp_path.glob("predictions*"))
    assert "goes on" not in done.out + done.err and not list(tmp_path.glob("*.part.csv"))


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
        ("\r=1", "'\r=1"),
    ],
)
def test_a_cell_is_no_formula(text, cell):
    assert spreadsheet_cell(text) == cell


@pytest.mark.parametrize("changed", ["name", "time", "size", "weights", "weights' content", "none"])
def test_other_weights_are_other_rows_wherever_they_come_from(tmp_path, changed):
    for name in ("a.ckpt", "b.ckpt", "a.npz", "b.npz"):
        (tmp_path / name).write_bytes(b"trained")
        os.utime(tmp_path / name, (0, 0))
    trainer = SimpleNamespace(precision="32-true", datamodule=SimpleNamespace())

    def digest(checkpoint: str | None = "a.ckpt", weights: str = "a.npz") -> str:
        model = SimpleNamespace(hparams={"b": 1, "a": 2}, weights=str(tmp_path / weights))
        return _digest(trainer, model, checkpoint and str(tmp_path / checkpoint))

    before = digest()
    match changed:
        case "name":
            assert digest("b.ckpt") != before
        case "weights":
            assert digest(weights="b.npz") != before
        case "none":
            assert digest(None) != before
        case "time":
            os.utime(tmp_path / "a.ckpt", (0, 1))
            assert digest() != before
        case "size":
            (tmp_path / "a.ckpt").write_bytes(b"trained.")
            os.utime(tmp_path / "a.ckpt", (0, 0))
            assert digest() != before
        case _:
            os.utime(tmp_path / "a.npz", (0, 1))
            assert digest() != before


def test_the_order_in_which_settings_were_given_says_nothing():
    trainer = SimpleNamespace(precision="32-true", datamodule=SimpleNamespace())
    one, other = (SimpleNamespace(hparams=dict(facts)) for facts in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)]))
    assert _digest(trainer, one, None) == _digest(trainer, other, None)
    assert len(_digest(trainer, one, None)) == 8


def test_a_file_that_is_there_stays(tmp_path):
    path = tmp_path / "predictions.csv"
    for name in ("predictions.csv", "predictions-2.csv", "predictions-3.csv"):
        assert unused(path) == tmp_path / name
        (tmp_path / name).touch()
    (tmp_path / "predictions-2.csv").unlink()
    assert unused(path) == tmp_path / "predictions-2.csv"


class Images(Named):
    predict_from = 0

    def reason(self, number: int) -> str:
        return f"=broken {self[number]}"

    @property
    def predict_set(self) -> "Images":
        return self


def written(folder: Path, batches: list[tuple[list[list[float]], object]], names: list[str] | None, **facts) -> list:
    """What is written of logits and labels of five images, as from `ranks` devices."""
    images = Images(facts.pop("images", "abcde"))
    loaders = SimpleNamespace(dataset=images, batch_sampler=None)
    trainer = SimpleNamespace(is_global_zero=True, datamodule=images, predict_dataloaders=loaders, callbacks=[])
    trainer.world_size, trainer.precision = facts.get("ranks", 1), "32-true"
    trainer.strategy = SimpleNamespace(broadcast=lambda value: value)
    model = SimpleNamespace(hparams={"num_classes": 4}, class_names=names, all_gather=facts.get("all_gather"))
    model.hparams = type("Settings", (dict,), {"num_classes": 4})(model.hparams | facts.get("settings", {}))
    callback = Predictions(folder / "predictions.csv", top=facts.get("top", 2))
    callback.setup(trainer, model, "predict")
    for number, (outputs, labels) in enumerate(batches):
        callback.on_predict_batch_end(trainer, model, torch.tensor(outputs), (None, torch.tensor(labels)), number)
    callback.on_predict_epoch_end(trainer, model)
    with (folder / "predictions.csv").open(newline="") as file:
        return list(csv.reader(file))


BEST = [[0.1, 0.6, 0.25, 0.05], [0.5, 0.1, 0.1, 0.3], [0.0, 0.1, 0.2, 0.7]]


def test_a_row_holds_the_best_classes_and_no_padding(tmp_path, capsys):
    batches = [(BEST, [0, BROKEN, 0]), (BEST, [0, 0, 0])]
    assert written(tmp_path, batches, ["w", "-x", "y", "z"]) == [
        ["image", "class1", "probability1", "class2", "probability2", "error"],
        ["a", "'-x", "0.600000", "y", "0.250000", ""],
        ["b", "", "", "", "", "'=broken b"],
        ["c", "z", "0.700000", "y", "0.200000", ""],
        ["d", "'-x", "0.600000", "y", "0.250000", ""],
        ["e", "w", "0.500000", "z", "0.300000", ""],
    ]
    assert capsys.readouterr().out.splitlines() == [
        *("a  '-x 60.0 %", "b  '=broken b", "c  z 70.0 %", "d  '-x 60.0 %", "e  w 50.0 %"),
        f"wrote    {tmp_path / 'predictions.csv'}: 5 images",
    ]


def test_classes_without_names_are_numbers_and_no_more_are_asked_for_than_there_are(tmp_path):
    head, first, *_ = written(tmp_path, [(BEST, [[0, 1]] * 3), (BEST, [[0, 1]] * 3)], None, top=9)
    assert head[-3:] == ["class4", "probability4", "error"]
    assert first == ["a", "1", "0.600000", "2", "0.250000", "0", "0.100000", "3", "0.050000", ""]


def test_the_rows_of_two_devices_come_in_turns(tmp_path):
    """The first has the images 0, 2 and 4, the second 1, 3 and a padding."""

    def all_gather(column: torch.Tensor) -> torch.Tensor:
        return torch.stack([column, column.roll(1, 0)])

    found = written(tmp_path, [(BEST, [0, BROKEN, 0])], None, ranks=2, all_gather=all_gather)
    own, theirs = ["1", "", "3"], ["3", "1", ""]
    assert [row[1] for row in found[1:]] == [own[0], theirs[0], own[1], theirs[1], own[2]]
    assert [row[0] for row in found[1:]] == list("abcde")


def test_features_of_two_devices_come_in_turns_and_keep_their_images(tmp_path):
    images = Images("abcde")
    loaders = SimpleNamespace(dataset=images, batch_sampler=None)
    trainer = SimpleNamespace(is_global_zero=True, datamodule=images, predict_dataloaders=loaders, callbacks=[])
    trainer.world_size, trainer.precision = 2, "32-true"
    trainer.strategy = SimpleNamespace(broadcast=lambda value: value)
    settings = type("Settings", (dict,), {"num_classes": 4})()
    model = SimpleNamespace(hparams=settings, class_names=None, wants_features=False)
    model.all_gather = lambda column: torch.stack([column, column.roll(1, 0)])
    callback = Predictions(tmp_path / "predictions.csv", features=tmp_path / "f.npz")
    callback.setup(trainer, model, "predict")
    assert model.wants_features
    own = torch.tensor([[1.0, 2], [3, 4], [5, 6]])
    batch = (None, torch.tensor([0, BROKEN, 0]))
    callback.on_predict_batch_end(trainer, model, (torch.tensor(BEST), own), batch, 0)
    callback.on_predict_epoch_end(trainer, model)
    with np.load(tmp_path / "f.npz") as found:
        assert found["keys"].tolist() == list("abcde")
        expected = np.array([[1, 2], [5, 6], [np.nan, np.nan], [1, 2], [5, 6]], dtype=np.float32)
        assert np.array_equal(found["features"], expected, equal_nan=True)


def test_a_set_without_a_readable_image_has_failed(tmp_path):
    with pytest.raises(InputError, match=r"^none of the 5 images can be read: a: "):
        written(tmp_path, [(BEST, [BROKEN] * 3), (BEST, [BROKEN] * 3)], None)
    assert not list(tmp_path.iterdir())


def test_outputs_that_are_not_finite_name_their_image(tmp_path):
    bad = [*BEST[:2], [float("nan"), 0, 0, 0]]
    with pytest.raises(InputError, match="the outputs for image c are not finite"):
        written(tmp_path, [(bad, [0, 0, 0])], None)


@pytest.mark.parametrize(("rows_there", "goes_on_after"), [(0, 0), (1, 0), (3, 2), (5, 4), (6, 4)])
def test_a_second_call_goes_on_after_whole_rows_and_leaves_one_to_do(tmp_path, rows_there, goes_on_after):
    """An image is left at least, so that there is a batch to end with."""
    images = Images("abcde")
    trainer = SimpleNamespace(is_global_zero=True, datamodule=images, precision="32-true")
    trainer.strategy = SimpleNamespace(broadcast=lambda value: value)
    model = SimpleNamespace(hparams={"num_classes": 4})
    callback = Predictions(tmp_path / "predictions.csv")
    callback.setup(trainer, model, "predict")
    callback._file.add([["image", "error"], *([name, ""] for name in "abcde")][:rows_there])
    callback._file._file.close()
    again = Predictions(tmp_path / "predictions.csv")
    again.setup(trainer, model, "predict")
    assert images.predict_from == goes_on_after
    left = again._file.path.read_text().splitlines()
    assert left == (["image,error", *(f"{name}," for name in "abcde")][: goes_on_after + 1] if goes_on_after else [])


@pytest.mark.parametrize(("weights", "named"), [("net.onnx", "net.onnx gives"), (None, "a SimpleNamespace gives")])
def test_a_program_without_features_is_named(tmp_path, weights, named):
    program = SimpleNamespace(hparams={"num_classes": 2}, weights=weights)
    callback = Predictions(tmp_path / "predictions.csv", features=tmp_path / "f.npz")
    said = rf"f\.npz: {named} no features; leave the flag out, or give the checkpoint or weights of a Classifier"
    with pytest.raises(InputError, match=said):
        callback._want_features(program)
