"""How samples of tars are made up: which file is the image, and which classes a file names."""

import tarfile

import pytest

from datamodules.reading import tars
from datamodules.reading.synsets import misplaced, wnids, words
from datamodules.reading.tar_parts import SampleForm, _split
from tests.datamodules.reading.test_tars import tar_of
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("parts", "image"),
    [
        ("png cls", "png"),
        ("depth.png jpg json", "jpg"),
        ("seg.png cls", "seg.png"),
        ("txt cls", None),
        ("jpeg2000 tiff", "tiff"),
    ],
)
def test_the_image_of_a_sample(parts, image):
    assert SampleForm().image(dict.fromkeys(parts.split())) == image


@pytest.mark.parametrize("parts", ["png jpg", "a.png b.jpg"])
def test_two_images_of_a_sample(parts):
    with pytest.raises(ValueError, match=r"has several image files, .*; give --data\.image_part with the right one"):
        SampleForm().image(dict.fromkeys(parts.split()))


@pytest.mark.parametrize("order", [1, -1])
def test_an_ending_that_is_the_image_of_some_and_stands_beside_that_of_others(order):
    form = SampleForm()
    first, second = [{"jpg": 0, "depth.png": 0}, {"depth.png": 0}][::order]
    form.image(first)
    form.image(first)
    with pytest.raises(
        ValueError, match=r"has \.depth\.png, which is the only image of some samples and stands beside"
    ):
        form.image(second)
    apart = SampleForm()
    assert [apart.image({part: 0}) for part in ("a.png", "b.png", "png")] == ["a.png", "b.png", "png"]
    assert apart.image({"png": 0, "c.png": 0}) == "png"


@pytest.mark.parametrize(
    ("parts", "label"),
    [
        ("png cls json", "cls"),
        ("png a.cls json", "a.cls"),
        ("png json x.json", "json"),
        ("png x.json", "x.json"),
        ("png txt", None),
    ],
)
def test_the_file_with_the_class(parts, label):
    assert SampleForm().label(dict.fromkeys(parts.split())) == label


def test_parts_that_are_named():
    form = SampleForm(image_part=".Left.PNG", label_part="TXT")
    parts = dict.fromkeys(("left.png", "right.png", "txt", "cls"))
    assert (form.image(parts), form.label(parts)) == ("left.png", "txt")
    assert form.image({"right.png": 0}) is None and form.label({"cls": 0}) is None


@pytest.mark.parametrize(
    ("ending", "data", "names"),
    [
        ("cls", b"\xef\xbb\xbf 3 \n\n", ("3",)),
        ("txt", b"cat", ("cat",)),
        ("json", b'{"label": 3.0, "x": 1}', ("3",)),
        ("a.json", b'{"label": ["cat"]}', ("cat",)),
        ("json", b'{"label": null}', None),
        ("json", b'{"other": 1}', None),
        ("json", b"[1]", None),
    ],
)
def test_classes_that_a_file_names(ending, data, names):
    assert SampleForm().names(ending, data) == names


@pytest.mark.parametrize(
    ("ending", "data", "said"),
    [
        ("cls", b"a\nb", r"has no single class: \.cls holds 2 lines; give --data\.multi_label true"),
        ("cls", b"", r"\.cls holds 0 lines"),
        ("cls", b"[1, 2]", r"has no class: \.cls holds the list or object '\[1, 2\]'; write one name a line"),
        ("cls", b"a\x00b", r"has no class: \.cls holds 'a\\x00b', expected a name or a whole number"),
        ("json", b'{"label": ["a", "b"]}', "the field 'label' of .json holds a list of 2; give"),
        ("json", b'{"label": []}', "holds a list of 0; give"),
        ("json", b'{"label": 0.5}', "holds 0.5, expected a name or a whole number"),
        ("json", b'{"label": ""}', "holds '', expected a name"),
        ("json", b'{"label": "[1]"}', r"holds '\[1\]', expected a name"),
        ("json", b'{"label": {"a": 1}}', "has no class: the field 'label' of .json holds the label {'a': 1}"),
        ("json", b'{"label": [true]}', r"holds \[True\], expected the names or the numbers of classes"),
    ],
)
def test_files_that_name_no_class(ending, data, said):
    with pytest.raises(ValueError, match=said):
        SampleForm().names(ending, data)


def test_several_classes_of_a_file():
    form = SampleForm(multi_label=True, label_field="x")
    assert form.names("json", b'{"x": ["b", "a", "b"], "label": 3}') == ("b", "a") and form.names("cls", b"") == ()
    assert form.names("json", b'{"x": []}') == () and form.names("cls", b"b\n\n a") == ("b", "a")
    with pytest.raises(ValueError, match=r"has the list 0, 1, 0, which has a 0 or 1 for each class.* in its label"):
        SampleForm(multi_label=True).names("json", b'{"label": [0, 1, 0]}')
    kinds = SampleForm()
    kinds.names("json", b'{"label": "cat"}')
    with pytest.raises(ValueError, match="the label 3 beside 'cat', expected numbers or names alone"):
        kinds.names("json", b'{"label": 3}')


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("./a/b.c/x.Seg.PNG", ("a/b.c/x", "seg.png")),
        ("x.png", ("x", "png")),
        ("a.b/x", None),
        (".hidden.png", None),
        ("__readme__", None),
        ("__MACOSX__/x.png", None),
        ("a/__x__.png", ("a/__x__", "png")),
        ("x.", ("x", "")),
    ],
)
def test_the_sample_of_a_file(name, found):
    assert _split(tarfile.TarInfo(name)) == found
    folder = tarfile.TarInfo(name)
    folder.type = tarfile.DIRTYPE
    assert _split(folder) is None


# Tars inside tars ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cut", "names"), [(1, ["a.png"]), (513, ["a.png"]), (0, ["a.png", "b.png"])])
def test_of_a_tar_inside_that_is_cut_what_it_holds_whole_is_left(tmp_path, cut, names):
    inner = tar_of({"a.png": b"a" * 512, "b.png": b"b" * 512})[: 2048 - cut]
    whole = tar_of({"first.png": b"1", "in.tar": inner})
    (tmp_path / "x.tar").write_bytes(whole)
    faults: list[InputError] = []
    found = {members.folder: members for members in tars.scan(tmp_path / "x.tar", faults.append)}
    assert found["x.tar/in.tar"].names == names and len(faults) == 1 and "x.tar/in.tar cannot be read" in str(faults[0])
    for name, block in zip(names, found["x.tar/in.tar"].blocks, strict=True):
        assert tars.read(tmp_path / "x.tar", block, name) == name[:1].encode() * 512


def test_a_tar_inside_a_tar_that_is_cut(tmp_path):
    size = 2**19  # more than a buffer reads ahead
    whole = tar_of({"in.tar": tar_of({"a.png": b"a" * size, "b.png": b"b" * size})})
    (tmp_path / "x.tar").write_bytes(whole[: 3 * 512 + size + size // 2])
    faults: list[InputError] = []
    found = {members.folder: members.names for members in tars.scan(tmp_path / "x.tar", faults.append)}
    assert found == {"x.tar/in.tar": ["a.png"], "x.tar": []} and len(faults) == 2


# Names of ImageNet's classes -----------------------------------------------------------------------------------------

IDS = wnids("1k")[:4]  # tench, goldfish, great white shark, tiger shark


@pytest.mark.parametrize(
    ("called", "found"),
    [
        ([words(wnid) for wnid in IDS], None),
        (IDS, None),
        (["tench", "Carassius auratus", "white shark", "Tiger Shark"], None),
        (["goldfish", "tench", "white shark", "tiger shark"], (0, 1)),
        ([IDS[0], IDS[2], IDS[1], IDS[3]], (1, 2)),
        ([f"{IDS[0]}-x", f"{IDS[1]}_y", "z", f"{IDS[2]}"], (3, 2)),
        (["cat", "dog", "owl", "emu"], None),
        (["tench", "goldfish", "goldfish", "x"], None),  # the class has its own name too
        (["x", "goldfish", "y", "goldfish"], None),
        (["tench"], None),
        (["goldfish"], (0, 1)),
    ],
)
def test_names_of_classes_in_another_order(called, found):
    assert misplaced(called, IDS) == found


def test_words_of_several_classes_are_no_fault():
    cranes = ["n02012849", "n03126707"]
    assert misplaced(["crane", "crane"], cranes) is None
    assert misplaced([f"crane ({cranes[1]})", "x"], cranes) == (0, 1)
