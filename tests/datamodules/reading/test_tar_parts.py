"""Tars whose samples are damaged or badly packed: one short sentence that names the tar and the sample."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from datamodules.reading.tar_parts import Sample, SampleForm, samples
from datamodules.webshards import WebShards
from vit_lightning.errors import InputError


def pack(file: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(file, "w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def read(tmp_path: Path, members: dict[str, bytes], **options) -> list[Sample]:
    with pack(tmp_path / "x.tar", members).open("rb") as file:
        return list(samples(file, "x.tar", SampleForm(**options)))


def said(tmp_path: Path, members: dict[str, bytes], **options) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, members, **options)
    text = str(caught.value)
    assert len(text) < 600 and "\n" not in text
    return text


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("a.json", b'{"label": 3', r"x.tar: sample a has a damaged .json (Expecting ',' delimiter"),
        ("a.json", b"[" * 100_000, "x.tar: sample a has a damaged .json (maximum recursion depth exceeded"),
        ("a.json", b'{"label": "\xff"}', "x.tar: sample a has a damaged .json ('utf-8' codec can't decode"),
        ("a.json", b'{"label": %s}' % (b"1" * 5000), "x.tar: sample a has a damaged .json (Exceeds the limit"),
        ("a.json", b"", "x.tar: sample a has a damaged .json (Expecting value"),
        ("a.json", b"[1, 2]", "x.tar: sample a has no class in a .cls or in the field 'label' of a .json, but .png"),
        ("a.cls", b"caf\xe9", "x.tar: sample a has a damaged .cls ('utf-8' codec can't decode"),
        ("a.cls", b" \n", "x.tar: sample a has no single class: .cls holds 0 lines"),
        ("a.cls", b"1\n2", "x.tar: sample a has no single class: .cls holds 2 lines"),
    ],
)
def test_damaged_side_files(tmp_path, name, data, fault):
    assert said(tmp_path, {"a.png": b"", name: data}).startswith(fault)


def test_doctor_names_tar_and_sample(app, tmp_path):
    pack(tmp_path / "train.tar", {"0.png": b"", "0.cls": b"1", "a.png": b"", "a.json": b'{"label"'})
    words = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "WebShards", "--data.root")
    done = app("doctor", *words, tmp_path, "--data.cache", tmp_path / "cache", "--json", "found.json")
    assert done.code == 1
    texts = [finding["text"] for finding in json.loads((tmp_path / "found.json").read_text())["findings"]]
    assert any("train.tar: sample a has a damaged .json (" in text for text in texts), texts


def test_names_with_dots(tmp_path):
    members = {f"img.v1.{number:05d}.{ending}": b"0" for number in range(1000) for ending in ("jpg", "cls")}
    text = said(tmp_path, members)
    assert text == (
        "x.tar: sample img has several image files, .v1.00000.jpg, .v1.00001.jpg, .v1.00002.jpg, .v1.00003.jpg, "
        ".v1.00004.jpg and 995 more; give --data.image_part with the right one; if these are several samples, take the "
        "dots out of their names: a sample's name ends at its first dot"
    )


def test_long_names_are_cut(tmp_path):
    long = "x" * 5000
    text = said(tmp_path, {f"{long}.{long}{number}": b"" for number in range(10)})
    assert "and 5 more" in text


def test_files_that_are_not_adjacent(tmp_path):
    members = {"a.png": b"", "b.png": b"", "a.cls": b"0", "b.cls": b"0"}
    assert said(tmp_path, members) == (
        "x.tar: sample a has no class in a .cls or in the field 'label' of a .json, but .png; its other files lie "
        "further on: pack the files of a sample next to each other, as tar --sort=name does"
    )
    assert "further on" in said(tmp_path, {"a.cls": b"0", "b.cls": b"0", "a.png": b"", "b.png": b""})


def test_a_file_packed_twice(tmp_path):
    assert said(tmp_path, {"a.png": b"", "a.PNG": b""}) == "x.tar: sample a has two files .png; pack each only once"


@pytest.mark.parametrize("form", ["{}", ".{}"])
@pytest.mark.parametrize("size", [str.lower, str.upper])
def test_parts_are_found_whatever_the_size_of_their_letters(tmp_path, form, size):
    members = {"a.Input.PNG": b"12", "a.depth.png": b"", "a.Fine.Cls": b"1", "a.cls": b"0"}
    options = {"image_part": form.format(size("input.png")), "label_part": form.format(size("fine.cls"))}
    (found,) = read(tmp_path, members, **options)
    assert (found.key, found.size, found.labels) == ("a", 2, ("1",))


def test_several_labels(tmp_path):
    text = said(tmp_path, {"a.png": b"", "a.coarse.cls": b"0", "a.fine.cls": b"1"})
    assert "sample a has several label files, .coarse.cls, .fine.cls; give --data.label_part" in text
    found = read(tmp_path, {"a.png": b"", "a.coarse.cls": b"0", "a.fine.cls": b"1"}, label_part="fine.cls")
    assert found[0].labels == ("1",)
    assert said(tmp_path, {"a.png": b"", "a.cls": b"0"}, label_part="txt").endswith("has no .txt, but .png, .cls")
    found = read(tmp_path, {"a.png": b"", "a.cls": b"a\nb\na\n"}, multi_label=True)
    assert found[0].labels == ("a", "b")


def test_a_class_in_a_file_of_its_own_comes_before_one_in_a_json(tmp_path):
    members = {"a.json": b'{"label": 1}', "a.png": b"", "a.cls": b"1", "b.png": b"", "b.json": b'{"label": 2}'}
    assert [(one.key, one.labels) for one in read(tmp_path, members)] == [("a", ("1",)), ("b", ("2",))]


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "cab"])
def test_a_picture_that_stood_beside_an_image_is_no_image_of_a_later_sample(tmp_path, order):
    """Sample b says nothing of either, whether it comes before, between or after the two that differ."""
    kinds = {"a": ("png", "depth.png"), "b": ("png",), "c": ("depth.png",)}
    members = {f"{key}.{ending}": b"" for key in order for ending in (*kinds[key], "cls")}
    text = said(tmp_path, dict.fromkeys(members, b"0"))
    assert "has .depth.png, which is the only image of some samples and stands beside the image of others" in text


def test_files_of_one_folder_and_name_are_a_sample_however_the_folder_is_written(tmp_path):
    members = {
        "./x/a.png": b"1",
        "x/a.cls": b"0",
        "./y/a.png": b"22",
        "./y/a.cls": b"1",
        "a.png": b"3",
        "./a.cls": b"2",
    }
    found = read(tmp_path, members | {"./__about__/x.cls": b"", "z/.png": b""})
    assert [(one.key, one.size, one.labels) for one in found] == [
        ("x/a", 1, ("0",)),
        ("y/a", 2, ("1",)),
        ("a", 1, ("2",)),
    ]


def test_an_index_knows_how_its_samples_were_read(tmp_path):
    pack(tmp_path / "train.tar", {"a.png": b"", "a.json": b'{"fine": 1, "coarse": 0}', "a.txt": b"2"})
    options = {"root": str(tmp_path), "cache": tmp_path / "cache"}
    assert WebShards(**options, label_field="fine").class_names == ["0", "1"]
    assert WebShards(**options, label_field="coarse").class_names == ["0"]
    assert WebShards(**options, label_part="txt").class_names == ["0", "1", "2"]
    with pytest.raises(InputError, match=r"sample a has no .jpg"):
        WebShards(**options, label_field="fine", image_part="jpg").class_names  # noqa: B018
