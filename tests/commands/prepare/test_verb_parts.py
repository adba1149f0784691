"""What `prepare` takes of its data, and where it does not write, without an application."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from datamodules.shards import Shards
from vit_lightning.commands.prepare import prepare
from vit_lightning.commands.prepare.verb import _check_apart, _check_form, _foreign_files, _mixed
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError


class Own(ImageDataModule):
    """Images of one colour each, its label in red; sets as they are given."""

    num_classes = 4

    def __init__(self, *, later: bool = False, **sets: list[int] | str) -> None:
        super().__init__(image_size=8, batch_size=2, num_workers=0)
        self.sets, self.later = sets, later

    def setup(self, stage: str) -> None:
        for split, labels in self.sets.items():
            if isinstance(labels, str):
                made = getattr(self, f"{labels}_set")
            else:
                pixels = [Image.new("RGB", (8, 6), (60 * label, number, 0)) for number, label in enumerate(labels)]
                made = list(zip(pixels, labels, strict=True))
            if split != "test" or not self.later or stage == "test":
                setattr(self, f"{split}_set", made)


def written(folder: Path, data: Own, **flags: object) -> tuple[dict, Shards]:
    prepare(SimpleNamespace(is_global_zero=True), None, data, out=folder / "out", **flags)
    read = Shards(root=folder / "out", val_fraction=0)
    read.setup("fit")
    return json.loads((folder / "out/manifest.json").read_text())["splits"], read


def labels(images) -> list[int]:
    return [images[number][1] for number in range(len(images))]


TRAIN, VAL, TEST = [0, 1, 2, 3, 1], [3, 2], [2, 2, 0]


def test_each_set_has_its_own_images_in_their_order(tmp_path):
    splits, read = written(tmp_path, Own(train=TRAIN, val=VAL, test=TEST), shard_images=2)
    assert {split: (facts["images"], facts["mixed"], facts["folder"]) for split, facts in splits.items()} == {
        "train": (5, False, "train"),
        "val": (2, False, "val"),
        "test": (3, False, "test"),
    }
    assert [labels(images) for images in (read.train_set, read.val_set, read.test_set)] == [TRAIN, VAL, TEST]
    assert sorted(path.name for path in (tmp_path / "out/train").glob("*.bin")) == [
        f"chunk-0-{number}.bin" for number in range(3)
    ]
    assert sorted(splits["val"]["mean_size"]) == [6, 8]


def test_training_images_alone_are_mixed_the_same_way_every_time(tmp_path):
    many = [number % 4 for number in range(40)]
    splits, read = written(tmp_path, Own(train=many, val=many, test=many), mix=True)
    assert [splits[split]["mixed"] for split in ("train", "val", "test")] == [True, False, False]
    order = _mixed(range(40))
    numbers = [order[number] for number in range(40)]
    assert sorted(numbers) == list(range(40)) != numbers
    assert labels(read.train_set) == [many[number] for number in numbers] != many
    assert labels(read.val_set) == labels(read.test_set) == many


@pytest.mark.parametrize("mix", [False, True])
def test_a_set_that_is_another_is_written_once_and_keeps_what_that_is(tmp_path, mix):
    splits, _ = written(tmp_path, Own(train=TRAIN, val="train", test="train"), mix=mix)
    assert splits["train"] == splits["val"] == splits["test"] and splits["train"]["mixed"] is mix
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == ["train"]


def test_sets_that_are_empty_or_not_there_are_left_out(tmp_path, capsys):
    splits, _ = written(tmp_path, Own(train=TRAIN, val=[]))
    assert list(splits) == ["train"]
    assert capsys.readouterr().out.splitlines()[-1].startswith("wrote ")


def test_a_test_set_of_a_later_stage_is_written_and_the_others_stay(tmp_path):
    splits, _ = written(tmp_path, Own(train=TRAIN, val=VAL, test=TEST, later=True))
    assert {split: facts["images"] for split, facts in splits.items()} == {"train": 5, "val": 2, "test": 3}


def test_other_processes_write_nothing(tmp_path):
    prepare(SimpleNamespace(is_global_zero=False), None, Own(train=TRAIN), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "taken"),
    [
        ({"short_side": 1}, True),
        ({"short_side": 0}, False),
        ({"short_side": 65_500}, True),
        ({"short_side": 65_501}, False),
        ({"quality": 1}, True),
        ({"quality": 0}, False),
        ({"quality": 100}, True),
        ({"quality": 101}, False),
        ({"shard_images": 1}, True),
        ({"shard_images": 0}, False),
        ({"shard_images": 2**31}, True),
        ({"shard_images": 2**31 + 1}, False),
    ],
    ids=str,
)
def test_limits_belong_to_what_is_taken(tmp_path, flags, taken):
    trainer, ((name, value),) = SimpleNamespace(is_global_zero=False), flags.items()
    if taken:
        prepare(trainer, None, Own(), out=tmp_path / "out", **flags)
    else:
        with pytest.raises(InputError, match=f"--{name} is {value}, expected 1 to "):
            prepare(trainer, None, Own(), out=tmp_path / "out", **flags)


@pytest.mark.parametrize(
    ("facts", "short_side", "quality", "refused"),
    [
        ({"channels": 5}, None, 90, ""),
        ({"channels": 5}, 256, 90, "--data.channels 5"),
        ({"channels": 5}, None, None, "--data.channels 5"),
        ({"channels": 2}, 256, 90, "--data.channels 2"),
        *(({"channels": channels}, 256, None, "") for channels in (None, 1, 3, 4)),
        ({"window": (0, 9)}, 256, 90, "--data.window"),
        ({"window": (0, 9), "channels": 5}, None, None, "--data.window"),
        ({"finds_window": True}, 256, 90, "--data.window"),
        ({"finds_window": True}, None, 90, ""),
    ],
)
def test_what_neither_jpeg_nor_png_holds_keeps_its_bytes(facts, short_side, quality, refused):
    data = SimpleNamespace(**{"channels": None, "window": None, "finds_window": False} | facts)
    if not refused:
        return _check_form(data, short_side, quality)
    with pytest.raises(InputError, match=rf"^{refused} is stored with the bytes .* and {refused} again where"):
        _check_form(data, short_side, quality)


def test_what_is_not_prepare_s_is_named(tmp_path):
    out = tmp_path / "out"
    assert list(_foreign_files(out)) == []
    for name in ("train/chunk-0-0.bin", "train/.hidden", "train/chunk-0-1.bin.part", ".lock", "manifest.json"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).touch()
    assert list(_foreign_files(out)) == []
    for name in ("notes.txt", "extra/x", "train/photo.png", "val"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).touch()
    foreign = {"notes.txt", "extra", "train/photo.png", "val"}
    assert set(_foreign_files(out)) == foreign
    (out / "train/prepared.jsonl").touch()  # shards are there: other files may lie beside them, and not among them
    assert set(_foreign_files(out)) == {"train/photo.png"}


@pytest.mark.parametrize(
    ("out", "root", "how"),
    [("a", "a", "is"), ("a/b", "a", "lies in"), ("a", "a/b/c", "contains"), ("a/b", "a/c", ""), ("ab", "a", "")],
)
def test_shards_lie_beside_the_images(tmp_path, monkeypatch, out, root, how):
    monkeypatch.chdir(tmp_path)
    for given in (root, Path(root), str(tmp_path / root)):
        if how:
            with pytest.raises(InputError, match=f"--out {out} {how} --data.root "):
                _check_apart(Path(out), given)
        else:
            _check_apart(Path(out), given)


def test_unlabelled_images_and_other_data_are_refused(tmp_path):
    class Unlabelled(Own):
        num_classes = None

    with pytest.raises(InputError, match="which Unlabelled does not give"):
        prepare(None, None, Unlabelled(), out=tmp_path / "out")
    with pytest.raises(InputError, match="which SimpleNamespace does not give"):
        prepare(None, None, SimpleNamespace(num_classes=3), out=tmp_path / "out")
    assert not list(tmp_path.iterdir())
