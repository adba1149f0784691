"""Tars that the webdataset library writes: labels, names and pixels beside that library's own reading."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from datamodules.reading.tar_patterns import expand
from datamodules.webshards import WebShards
from vit_lightning.data import images
from vit_lightning.data.image_set import ImageSet
from vit_lightning.errors import InputError

webdataset = pytest.importorskip("webdataset")
braceexpand = pytest.importorskip("braceexpand")
CHANCE = np.random.default_rng(0)
NAMES = ("red", "green", "blue")


def picture() -> np.ndarray:
    return CHANCE.integers(0, 256, (9, 12, 3), dtype=np.uint8)


def write(file: Path, samples: list[dict]) -> None:
    with webdataset.TarWriter(str(file)) as sink:
        for number, sample in enumerate(samples):
            sink.write({"__key__": f"part/{number:04d}", **sample})


def theirs(file: Path, *fields: str) -> list[tuple]:
    read = webdataset.WebDataset(str(file), shardshuffle=False, empty_check=False)
    return list(read.decode("rgb8").to_tuple("__key__", *fields))


def ours(root: Path, **options) -> WebShards:
    options = {"train": "train.tar", "val_fraction": 0, "cache": root / "cache", "image_size": 8, **options}
    data = WebShards(root=str(root), **options)
    data.setup("fit")
    return data


def compare(found: ImageSet, expected: list[tuple]) -> None:
    """The key, the pixels and the label of each sample."""
    assert len(found) == len(expected)
    for number, (key, pixels, label) in enumerate(expected):
        data, our_label = found[number]
        assert found.keys[number] == key
        assert torch.equal(images.decode(data, name=key), torch.from_numpy(pixels.copy()).permute(2, 0, 1))
        assert our_label == label


@pytest.mark.parametrize("ending", ["png", "ppm", "jpg"])
def test_whole_numbers(tmp_path, ending):
    write(tmp_path / "train.tar", [{ending: picture(), "cls": number * 7 % 12} for number in range(24)])
    rows = theirs(tmp_path / "train.tar", ending, "cls")
    found = ours(tmp_path).train_set
    if ending == "jpg":  # two decoders
        rows = [
            (key, images.decode(found[number][0], name="").permute(1, 2, 0).numpy(), label)
            for number, (key, _, label) in enumerate(rows)
        ]
    compare(found, rows)


def test_an_exact_ending_comes_before_other_images(tmp_path):
    samples = [{"depth.png": picture(), "png": picture(), "seg.png": picture(), "cls": n % 3} for n in range(6)]
    write(tmp_path / "train.tar", samples)
    compare(ours(tmp_path).train_set, theirs(tmp_path / "train.tar", "png", "cls"))
    data = ours(tmp_path, image_part="depth.png")
    compare(data.train_set, theirs(tmp_path / "train.tar", "depth.png", "cls"))


def test_input_and_target(tmp_path):
    write(tmp_path / "train.tar", [{"input.png": picture(), "target.cls": number % 3} for number in range(6)])
    compare(ours(tmp_path).train_set, theirs(tmp_path / "train.tar", "input.png", "target.cls"))


def test_text_as_label_where_asked_for(tmp_path):
    write(tmp_path / "train.tar", [{"png": picture(), "txt": NAMES[number % 3]} for number in range(6)])
    with pytest.raises(InputError, match=r"but \.png, \.txt; give --data.label_part txt if that is the class"):
        ours(tmp_path)
    data = ours(tmp_path, label_part="txt")
    assert data.class_names == sorted(NAMES)
    rows = theirs(tmp_path / "train.tar", "png", "txt")
    compare(data.train_set, [(key, pixels, data.class_names.index(name)) for key, pixels, name in rows])


@given(
    train=st.lists(st.sampled_from(NAMES), min_size=1, max_size=8),
    val=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
)
@settings(deadline=None, max_examples=25)
def test_names_in_any_order_and_with_any_missing(tmp_path_factory, train, val):
    """A label is the same name in every tar; a name that training lacks is an error that names it."""
    root = tmp_path_factory.mktemp("set")
    for split, names in (("train", train), ("val", val)):
        write(root / f"{split}.tar", [{"png": picture(), "json": {"label": name}} for name in names])
    if lacking := [name for name in val if name not in train]:
        with pytest.raises(
            InputError,
            match=rf"val\.tar: sample part/000{val.index(lacking[0])} has the label '{lacking[0]}', which train lacks",
        ):
            ours(root, val="val.tar")
        return
    data = ours(root, val="val.tar")
    for split, found in (("train", data.train_set), ("val", data.val_set)):
        rows = theirs(root / f"{split}.tar", "png", "json")
        compare(found, [(key, pixels, data.class_names.index(row["label"])) for key, pixels, row in rows])


def test_lists_are_several_labels_where_asked_for(tmp_path):
    several = [["red", "blue"], ["green"], [], ["blue"]]
    write(tmp_path / "train.tar", [{"png": picture(), "json": {"label": names}} for names in several])
    with pytest.raises(
        InputError,
        match=r"train.tar: sample part/0000 has no single class: the field 'label' of .json holds a list of 2",
    ):
        ours(tmp_path)
    data = ours(tmp_path, multi_label=True)
    assert data.class_names == ["blue", "green", "red"] and not hasattr(data.train_set, "labels")
    for number, row in enumerate(theirs(tmp_path / "train.tar", "json")):
        shown = [name for name, on in zip(data.class_names, data.train_set[number][1].tolist(), strict=True) if on]
        assert sorted(row[1]["label"]) == shown


@pytest.mark.parametrize("value", [{"a": 1}, 0.5, [["a"]], [{"a": 1}], "", float("nan")])
def test_what_is_no_label_is_never_a_class(tmp_path, value):
    write(tmp_path / "train.tar", [{"png": picture(), "json": {"label": value}}])
    for multi_label in (False, True):
        with pytest.raises(InputError, match=r"sample part/0000 has no class: the field 'label' of .json holds"):
            ours(tmp_path, multi_label=multi_label)


def test_whole_floats_are_whole_numbers(tmp_path):
    labels = [0.0, 2, 10.0, "2", "10.0"]
    write(tmp_path / "train.tar", [{"png": picture(), "json": {"label": label}} for label in labels])
    data = ours(tmp_path)
    assert data.num_classes == 11 and data.train_set.labels.tolist() == [0, 2, 10, 2, 10]


def test_several_images_are_an_error_that_names_them(tmp_path):
    write(tmp_path / "train.tar", [{"jpg": picture(), "png": picture(), "cls": 0}])
    with pytest.raises(InputError, match=r"has several image files, \.(jpg, \.png|png, \.jpg); give --data.image_part"):
        ours(tmp_path)


def test_an_image_that_stands_beside_others_is_not_taken_alone(tmp_path):
    """Of a sample that lost its picture, its depth map must not be learned in its place."""
    whole, rest = {"jpg": picture(), "depth.png": picture(), "cls": 0}, {"depth.png": picture(), "cls": 1}
    for samples in ([whole, rest], [rest, whole]):
        write(tmp_path / "train.tar", samples)
        with pytest.raises(InputError, match=r"has \.depth\.png, which is the only image of some samples and stands"):
            ours(tmp_path)


def test_what_the_library_leaves_out(tmp_path):
    content = io.BytesIO()
    Image.fromarray(picture()).save(content, "PNG")
    files = {"README": b"1", "__meta__/x.json": b"1", "part/__0.png": content.getvalue(), "part/__0.cls": b"1"}
    files |= {"part/LICENSE": b"1", "__x.PNG": content.getvalue(), "__x.CLS": b"2"}
    with tarfile.open(tmp_path / "train.tar", "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    data = ours(tmp_path)
    assert list(data.train_set.keys) == ["part/__0", "__x"]
    compare(data.train_set, theirs(tmp_path / "train.tar", "png", "cls"))


def test_numbers_are_no_places_among_names(tmp_path):
    """A number is the class of that number only where a class_map says the order, or where all classes are numbers."""
    write(tmp_path / "train.tar", [{"png": picture(), "cls": "red"}, {"png": picture(), "cls": "blue"}])
    write(tmp_path / "val.tar", [{"png": picture(), "cls": 1}])
    with pytest.raises(InputError, match=r"val\.tar: sample part/0000 has the label '1', which train lacks"):
        ours(tmp_path, val="val.tar")
    (tmp_path / "names").write_text("red\nblue\n")
    data = ours(tmp_path, val="val.tar", class_map=tmp_path / "names")
    assert data.train_set.labels.tolist() == [0, 1] and data.val_set.labels.tolist() == [1]


def test_a_negative_label_is_no_class(tmp_path):
    write(tmp_path / "train.tar", [{"png": picture(), "cls": 1}, {"png": picture(), "cls": -1}])
    with pytest.raises(
        InputError, match=r"train\.tar: sample part/0001 has the label '-1', which is no class; take out what has it"
    ):
        ours(tmp_path)


ENDS = st.integers(0, 120).map(str) | st.integers(0, 12).map("{:03d}".format)


@given(st.lists(st.tuples(ENDS, ENDS, st.integers(0, 5)) | st.sampled_from(["a,b", "x", ""]), min_size=1, max_size=2))
@settings(deadline=None)
def test_braces_are_written_out_as_the_library_does(parts):
    texts = [part if isinstance(part, str) else "..".join(map(str, part[: 2 + (part[2] > 0)])) for part in parts]
    pattern = "train-" + "-".join(f"{{{text}}}" for text in texts) + ".tar"
    assert expand(pattern) == list(braceexpand.braceexpand(pattern))
