"""WebDataset tars, local and remote, written here member by member and read beside the webdataset library's rules."""

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules import webshards as module
from datamodules.reading.tar_patterns import expand
from datamodules.webshards import WebShards
from tests import servers
from vit_lightning.augment import Augment
from vit_lightning.data import loaders
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule

CHANCE = np.random.default_rng(0)


def picture(kind: str = "PNG") -> bytes:
    content = io.BytesIO()
    Image.fromarray(CHANCE.integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(content, kind)
    return content.getvalue()


def pack(file: Path, members: list[tuple[str, bytes]]) -> dict[str, bytes]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return dict(members)


def write(root: Path) -> dict[str, bytes]:
    """Four training tars of five samples and a validation tar, each labelled in another way; returns all files."""
    files = {}
    for tar in range(4):
        members = [("__readme__", b"no sample")]
        for number in range(5):
            key, label = f"./part{tar}/{number:04d}", (tar * 5 + number) % 3
            ending = ("png", "jpg", "webp", "seg.png", "JPEG")[number]
            members.append((f"{key}.{ending}", picture({"webp": "WEBP", "png": "PNG"}.get(ending[-4:], "JPEG"))))
            if number % 2:
                members.append((f"{key}.cls", f"{label}\n".encode()))
            else:
                members.append((f"{key}.json", json.dumps({"label": label, "caption": "x"}).encode()))
                members.append((f"{key}.txt", b"a caption"))
        files |= pack(root / f"train-{tar:03d}.tar", members)
    members = [
        (f"{number}.{ending}", data) for number in range(6) for ending, data in (("png", picture()), ("cls", b"2"))
    ]
    files |= pack(root / "val.tar", members)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    root = tmp_path_factory.mktemp("tars") / "set"
    return root, write(root)


@pytest.fixture(scope="module")
def website(files) -> Iterator[str]:
    with servers.http(files[0]) as address:
        yield address


@pytest.fixture
def shards(tmp_path):
    def make(root: Path | str, **options) -> WebShards:
        options = {"train": "train-{000..003}.tar", "cache": tmp_path / "cache", **options}
        return WebShards(
            root=str(root), image_size=8, batch_size=4, augment=Augment(crop="none"), in_memory=False, **options
        )

    return make


def ready(data: WebShards) -> WebShards:
    data.setup("fit")
    return data


def test_contract(files, website, shards):
    check_datamodule(shards(files[0], val="val.tar", test="val.tar"))
    check_datamodule(shards(website, val="val.tar", val_fraction=0))


@pytest.mark.parametrize(
    ("options", "names", "first"),
    [
        ({"label_field": "kind"}, ["ox", "yak"], "input.png"),
        ({"label_part": "txt"}, ["p", "q"], "input.png"),
        ({"label_part": "txt", "multi_label": True}, ["p", "q"], "input.png"),
        ({"image_part": "depth.png"}, ["ant", "bee"], "depth.png"),
    ],
)
def test_what_was_read_of_tars_is_not_taken_for_samples_of_another_make(tmp_path, shards, options, names, first):
    members = []
    for key, label, kind, text in (("0", "ant", "ox", b"p"), ("1", "bee", "yak", b"q")):
        said = json.dumps({"label": label, "kind": kind}).encode()
        members += [(f"{key}.{ending}", picture()) for ending in ("input.png", "depth.png")]
        members += [(f"{key}.json", said), (f"{key}.txt", text)]
    content = pack(tmp_path / "set/train-0.tar", members)
    usual = {"train": "train-0.tar", "val_fraction": 0.0, "image_part": "input.png"}
    assert ready(shards(tmp_path / "set", **usual)).class_names == ["ant", "bee"]
    data = ready(shards(tmp_path / "set", **usual | options))
    assert data.class_names == names
    assert data.train_set[0][0] == content[f"0.{first}"]


def test_samples_are_files_of_one_name(files, shards):
    root, content = files
    data = ready(shards(root, val="val.tar"))
    assert data.class_names == ["0", "1", "2"]
    assert len(data.train_set) == 20 and len(data.val_set) == 6
    assert data.train_set.labels.tolist() == [number % 3 for number in range(20)]
    assert data.train_set.keys[7] == "part1/0002"
    endings = ("png", "jpg", "webp", "seg.png", "JPEG")
    for number in range(20):
        assert data.train_set[number][0] == content[f"./{data.train_set.keys[number]}.{endings[number % 5]}"]
    assert data.val_set.labels.tolist() == [2] * 6


def test_remote_as_local_and_read_once(files, website, shards, monkeypatch):
    near, far = ready(shards(files[0], val="val.tar")), ready(shards(website, val="val.tar"))
    for split in ("train_set", "val_set"):
        ours, theirs = getattr(far, split), getattr(near, split)
        assert [ours[number] for number in range(len(ours))] == [theirs[number] for number in range(len(theirs))]
    assert far.train_set.blocks.tolist() == [number // 5 for number in range(20)]
    monkeypatch.setattr(module, "index_samples", None)
    assert len(ready(shards(website, val="val.tar")).train_set) == 20


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_resumes_with_the_very_next_image(website, shards, workers):
    whole = list(ready(shards(website, val="val.tar", num_workers=workers)).train_dataloader())
    data = ready(shards(website, val="val.tar", num_workers=workers))
    loader = data.train_dataloader()
    loader.batches_seen = lambda: 2
    rest = list(loader)
    assert len(whole) == 5 and len(rest) == 3
    assert all(
        torch.equal(a, b) for one, other in zip(rest, whole[2:], strict=True) for a, b in zip(one, other, strict=True)
    )


def test_two_devices_share_the_samples_equally(website, shards, monkeypatch):
    seen = []
    for rank in (0, 1):
        data = ready(shards(website, val="val.tar"))
        monkeypatch.setattr(loaders, "_shard", lambda data, rank=rank: {"num_replicas": 2, "rank": rank})
        seen.append([draw.index for draw in data.train_dataloader().sampler])
    assert len(seen[0]) == len(seen[1]) == 10
    assert sorted(seen[0] + seen[1]) == list(range(20))


def test_patterns(files, shards, tmp_path):
    assert expand("a-{008..010}.tar") == ["a-008.tar", "a-009.tar", "a-010.tar"]
    assert expand("{a,b}{0..1}") == ["a0", "a1", "b0", "b1"]
    assert expand("plain.tar") == ["plain.tar"]
    root = files[0]
    assert len(ready(shards(root, train="train-*.tar", val_fraction=0)).train_set) == 20
    assert len(ready(shards(root, train="train-000.tar::train-{002..003}.tar", val_fraction=0)).train_set) == 15
    with pytest.raises(InputError, match=r"none-\*.tar: no such tar; give --data.root and --data.train"):
        ready(shards(root, train="none-*.tar"))
    with pytest.raises(InputError, match=r"none.tar is missing"):
        ready(shards(root, train="none.tar"))


def test_missing_tars_are_counted(files, website, shards):
    said = r"train-004.tar is missing \(2 of 6 train tars are\); {}, or name in --data.train only those that are there"
    for root, remedy in ((files[0], "fetch them"), (website, "upload them")):
        with pytest.raises(InputError, match=said.format(remedy)):
            ready(shards(root, train="train-{000..005}.tar"))


def test_packed_tars(files, shards, tmp_path):
    for number in range(4):
        (tmp_path / f"train-{number:03d}.tgz").write_bytes(
            gzip.compress((files[0] / f"train-{number:03d}.tar").read_bytes())
        )
    data = ready(shards(tmp_path, train="train-{000..003}.tgz", val_fraction=0))
    theirs = ready(shards(files[0], val_fraction=0))
    assert [data.train_set[number] for number in range(20)] == [theirs.train_set[number] for number in range(20)]


def test_named_classes(tmp_path, shards):
    pack(
        tmp_path / "train.tar",
        [("a.png", picture()), ("a.json", b'{"species": "cat"}'), ("b.png", picture()), ("b.cls", b"ant")],
    )
    data = ready(shards(tmp_path, train="train.tar", label_field="species", val_fraction=0))
    assert data.class_names == ["ant", "cat"] and data.train_set.labels.tolist() == [1, 0]
    (tmp_path / "map").write_text("cat\nant\n")
    data = ready(shards(tmp_path, train="train.tar", label_field="species", val_fraction=0, class_map=tmp_path / "map"))
    assert data.train_set.labels.tolist() == [0, 1]
    (tmp_path / "map").write_text("cat\n")
    with pytest.raises(InputError, match=r"train\.tar: sample b has the label 'ant', which .*map lacks"):
        ready(shards(tmp_path, train="train.tar", label_field="species", class_map=tmp_path / "map"))


def test_what_is_no_sample_is_named(tmp_path, shards):
    pack(tmp_path / "bare.tar", [("a.png", picture()), ("b.png", picture()), ("b.cls", b"0")])
    with pytest.raises(
        InputError, match=r"bare.tar: sample a has no class in a .cls or in the field 'label' of a .json"
    ):
        ready(shards(tmp_path, train="bare.tar"))
    pack(tmp_path / "blind.tar", [("a.cls", b"0"), ("a.wav", b"")])
    with pytest.raises(InputError, match=r"blind.tar: sample a has no image, but .cls, .wav"):
        ready(shards(tmp_path, train="blind.tar"))
    pack(tmp_path / "cut.tar", [("a.png", picture()), ("a.cls", b"0")])
    (tmp_path / "cut.tar").write_bytes((tmp_path / "cut.tar").read_bytes()[:2048])  # without its end mark
    with pytest.raises(InputError, match=r"cut.tar cannot be read as a tar"):
        ready(shards(tmp_path, train="cut.tar"))


def test_faults_that_were_listed_are_found_again_in_the_next_run(tmp_path, shards):
    """What is whole of damaged tars is never kept as if it were all."""
    pack(tmp_path / "train-0.tar", [("a.png", picture()), ("a.cls", b"0"), ("b.png", picture()), ("b.cls", b"1")])
    pack(tmp_path / "train-1.tar", [("c.png", picture()), ("c.cls", b"1"), ("d.png", picture())])
    for _ in range(2):
        listing = shards(tmp_path, train="train-*.tar", val_fraction=0)
        listing.faults = []
        assert list(ready(listing).train_set.keys) == ["a", "b", "c"]
        assert len(listing.faults) == 1 and "sample d has no class" in str(listing.faults[0])
        with pytest.raises(InputError, match=r"train-1.tar: sample d has no class"):
            ready(shards(tmp_path, train="train-*.tar", val_fraction=0))
    pack(tmp_path / "train-1.tar", [("c.png", picture()), ("c.cls", b"1"), ("d.png", picture()), ("d.cls", b"0")])
    assert list(ready(shards(tmp_path, train="train-*.tar", val_fraction=0)).train_set.keys) == ["a", "b", "c", "d"]


def test_tars_that_change(files, shards, tmp_path):
    root = tmp_path / "set"
    shutil.copytree(files[0], root)
    data = ready(shards(root, val_fraction=0))
    whole = (root / "train-003.tar").read_bytes()
    (root / "train-003.tar").write_bytes(whole[:1024])
    with pytest.raises(BrokenImage, match=r"part3/0004: .*train-003.tar ends before it"):
        data.train_set[19]
    pack(root / "train-003.tar", [("new.png", picture()), ("new.cls", b"1")])
    assert ready(shards(root, val_fraction=0)).train_set.keys[15] == "new"  # read anew


def test_the_kits_sample(kit, shards):
    data = shards(kit / "webdataset", train="mnist-sample.tgz")
    check_datamodule(data)
    data.setup("fit")
    assert data.num_classes == 10
    assert len(data.train_set) + len(data.val_set) == 90


@pytest.mark.parametrize("far", [False, True])
def test_contract_with_several_labels(tmp_path, shards, far):
    members = []
    for number in range(24):
        label = {"label": ["a", "b"][: number % 3]}
        members += [(f"{number:03d}.png", picture()), (f"{number:03d}.json", json.dumps(label).encode())]
    pack(tmp_path / "set/train.tar", members)
    with servers.http(tmp_path / "set") as address:
        data = shards(address if far else tmp_path / "set", train="train.tar", multi_label=True, num_workers=2)
        check_datamodule(data)
        ready(data)
        assert hasattr(data.train_set, "blocks") == far
        seen = torch.cat([labels for _, labels in data.train_dataloader()])
    assert {tuple(row) for row in seen.tolist()} == {(0, 0), (1, 0), (1, 1)}


def labelled(root: Path, name: str, *labels: str) -> None:
    pack(
        root / name,
        [
            (f"{n}.{end}", data)
            for n, label in enumerate(labels)
            for end, data in (("png", b"x"), ("cls", label.encode()))
        ],
    )


def test_three_classes_are_the_same_whatever_comes_first_in_a_tar(tmp_path, shards):
    labelled(tmp_path, "train-0.tar", "owl", "ant")
    labelled(tmp_path, "train-1.tar", "cat", "owl")
    labelled(tmp_path, "val.tar", "cat", "owl", "ant")
    data = ready(shards(tmp_path, train="train-*.tar", val="val.tar"))
    assert data.class_names == ["ant", "cat", "owl"]
    assert data.train_set.labels.tolist() == [2, 0, 1, 2] and data.val_set.labels.tolist() == [1, 2, 0]
    several = ready(shards(tmp_path, train="train-*.tar", val="val.tar", multi_label=True))
    assert [several.val_set[number][1].tolist() for number in range(3)] == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_numbers_are_classes_up_to_the_greatest_however_they_are_written(tmp_path, shards):
    labelled(tmp_path, "train.tar", "10", "9.0", "2")
    labelled(tmp_path, "val.tar", "2.0", "10", "0")
    data = ready(shards(tmp_path, train="train.tar", val="val.tar"))
    assert data.class_names == [str(number) for number in range(11)]
    assert data.train_set.labels.tolist() == [10, 9, 2] and data.val_set.labels.tolist() == [2, 10, 0]
    labelled(tmp_path, "val.tar", "11")
    with pytest.raises(InputError, match=r"has the label '11', which train lacks"):
        ready(shards(tmp_path, train="train.tar", val="val.tar"))
    labelled(tmp_path, "train.tar", "1", "-1")
    with pytest.raises(InputError, match=r"has the label '-1', which is no class; take out"):
        ready(shards(tmp_path, train="train.tar"))


@pytest.mark.parametrize("changed", ["nothing", "time", "size", "order", "name", "split"])
def test_tars_are_read_anew_where_any_fact_of_them_has_changed(tmp_path, shards, monkeypatch, changed):
    for name in ("train-0.tar", "train-1.tar", "train-2.tar"):
        labelled(tmp_path, name, "a", "b", "c")
        os.utime(tmp_path / name, (5, 5))
    read: list[int] = []
    whole = module.index_samples
    monkeypatch.setattr(module, "index_samples", lambda *words: read.append(1) or whole(*words))
    pattern = "train-{0,1}.tar"
    ready(shards(tmp_path, train=pattern, val_fraction=0))
    match changed:
        case "time":
            os.utime(tmp_path / "train-1.tar", (5, 6))
        case "size":
            with (tmp_path / "train-1.tar").open("ab") as file:
                file.write(b"\0" * 512)
            os.utime(tmp_path / "train-1.tar", (5, 5))
        case "order":
            pattern = "train-1.tar::train-0.tar"
        case "name":
            pattern = "train-{0,2}.tar"
    if changed == "split":
        shards(tmp_path, train=None, val=pattern).setup("validate")
    else:
        ready(shards(tmp_path, train=pattern, val_fraction=0))
    assert len(read) == (1 if changed == "nothing" else 2)


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_a_tar_that_trains_and_is_scored(tmp_path, link):
    write(tmp_path)
    scored = "train-001.tar" if link is None else "scored.tar"
    if link is not None:
        link(tmp_path / "train-001.tar", tmp_path / scored)
    for split in ("val", "test"):
        data = module.WebShards(root=str(tmp_path), cache=tmp_path / "cache", image_size=8, **{split: scored})
        with pytest.raises(InputError, match=rf"{scored} is a {split} tar and, as .*train-001\.tar, one that trains"):
            data.setup("fit")
    data = module.WebShards(root=str(tmp_path), train="train-000.tar", val=scored, test=scored, image_size=8)
    data.cache = tmp_path / "cache"
    data.setup("fit")
    assert len(data.val_set) == 5


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("labelled", [0, 2])
def test_test_tars_without_labels(tmp_path, multi_label, labelled):
    def members(count: int, told: int) -> list[tuple[str, bytes]]:
        some = [(f"{number}.png", picture()) for number in range(count)]
        some += [(f"{number}.cls", b"ab"[number % 2 : number % 2 + 1]) for number in range(told)]
        return sorted(some)

    pack(tmp_path / "train.tar", members(6, 6))
    pack(tmp_path / "test.tar", members(4, labelled))
    options = {"root": str(tmp_path), "train": "train.tar", "image_size": 8, "multi_label": multi_label}
    data = module.WebShards(test="test.tar", cache=tmp_path / "cache", val_fraction=0.0, **options)
    for stage in ("fit", "predict"):
        data.setup(stage)
        assert len(data.train_set) == 6 and list(data.test_set.keys) == ["0", "1", "2", "3"]
        said = [torch.as_tensor(data.test_set.label_at(number)) for number in range(4)]
        assert [bool((label == IGNORE).all()) for label in said] == [number >= labelled for number in range(4)]
    if labelled:
        data.setup("test")
        assert [int(label[-1] if multi_label else label) for label in said[:2]] == [0, 1]
    else:
        with pytest.raises(InputError, match=r"test\.tar has no labels, which test needs; predict does without them"):
            data.setup("test")
    with pytest.raises(InputError, match=r"test\.tar: sample .* has no class in a \.cls or in the field 'label'"):
        module.WebShards(val="test.tar", cache=tmp_path / "cache", **options).setup("fit")


def test_a_sample_with_a_caption_and_no_image(tmp_path):
    pack(tmp_path / "train.tar", [("0.json", b'{"status": "failed"}'), ("0.txt", b"a caption")])
    with pytest.raises(InputError, match=r"sample 0 has no image, but \.json, \.txt$"):
        module.WebShards(root=str(tmp_path), cache=tmp_path / "cache").setup("fit")


def test_other_data_need_no_training_tars(files, tmp_path):
    options = {"image_size": 8, "num_workers": 0, "cache": tmp_path / "cache", "augment": Augment(crop="none")}
    data = WebShards(root=str(files[0]), train=None, test="val.tar", **options)
    data.setup("test")
    assert data.class_names == ["0", "1", "2"] and len(data.test_set) == 6 and data.train_set is None
    with pytest.raises(InputError, match=r"--data\.train null leaves no training images, which a fit needs"):
        data.setup("fit")
    with pytest.raises(InputError, match=r"--data\.train null leaves no tars; give --data\.test"):
        WebShards(root=str(files[0]), train=None, **options)
