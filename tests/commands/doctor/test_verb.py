"""The verb doctor through the command line, on folders that are wrong in known ways."""

import io
import json
import math
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from vit_lightning.classifier import Classifier
from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.machine import Machine
from vit_lightning.commands.doctor.verb import _hidden_folders, _lines, _machine, _steps, _totals
from vit_lightning.models import NetConfig

CHANCE = np.random.default_rng(0)
NET = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A sound set: two classes, eight training and two validation images each, all different."""
    chance = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 2)):
        for name in ("cat", "dog"):
            (tmp_path / "set" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = chance.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "set" / split / name / f"{number}.png")
    return tmp_path / "set"


@pytest.fixture
def doctor(app, folder):
    def run(*words):
        data = ("--data", "ImageFolder", "--data.root", folder, "--data.image_size", 16, "--data.batch_size", 4)
        done = app("doctor", *NET, *data, "--data.num_workers", 0, "--json", "found.json", *words)
        content = json.loads(Path("found.json").read_text()) if Path("found.json").is_file() else None
        return done, content

    return run


def topics(content: dict, severity: str) -> set[str]:
    return {finding["topic"] for finding in content["findings"] if finding["severity"] == severity}


def test_a_head_of_weights_for_other_classes(doctor, tmp_path):
    model = Classifier(net=NetConfig(variant="mu/8"), num_classes=2, image_size=16)
    model.configure_model()
    content = {"state_dict": model.state_dict(), "hyper_parameters": dict(model.hparams), "class_names": ["dog", "cat"]}
    torch.save(content | {"pytorch-lightning_version": "2.5.0"}, tmp_path / "named.ckpt")
    done, found = doctor("--model.weights", tmp_path / "named.ckpt")
    assert done.code == 1 and "class 0 is 'cat' in the data but 'dog' in the weights" in done.out
    assert topics(found, "error") == {"config"}
    assert doctor("--model.weights", tmp_path / "named.ckpt", "--model.weights_head", "reset")[0].code == 0


def test_a_sound_set_passes(doctor):
    done, content = doctor()
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "doctor   0 errors, 0 warnings, 2 notes"
    assert "looked at 16 of 16 training images" in done.out
    assert "effective batch 4: 4 per device x 1 device x 1 node x 1 accumulated; 4 batches per epoch" in done.out
    assert content["images"] == {
        "training": {"images": 16, "unreadable": 0},
        "validation": {"images": 4, "unreadable": 0},
    }
    assert content["machine"]["accelerator"] == "cpu"
    assert not Path("runs").exists()


def test_the_default_data_pass(app):
    done = app("doctor", *NET, "--trainer.max_epochs", 2)
    assert done.code == 0, done.err


def test_everything_wrong_is_found_in_one_pass(doctor, folder):
    shutil.copy(folder / "train/cat/0.png", folder / "val/cat/leak.png")
    shutil.copy(folder / "train/cat/1.png", folder / "train/dog/also.png")
    shutil.copy(folder / "train/dog/2.png", folder / "train/dog/again.jpg")
    (folder / "train/dog/empty.png").write_bytes(b"")
    (folder / "train/bird").mkdir()
    (folder / "train/.ipynb_checkpoints").mkdir()
    Image.new("RGB", (1, 1)).save(folder / "train/cat/dot.png")
    Image.new("CMYK", (200, 200)).save(folder / "train/cat/big.jpg")
    done, content = doctor("--data.batch_size", 8, "--data.num_workers", 99)
    assert done.code == 1
    assert done.err.splitlines()[-1] == "error: doctor found 1 error, listed above"
    assert "Traceback" not in done.err
    assert topics(content, "error") == {"broken"}
    assert topics(content, "warning") == {"leak", "contradictions", "tiny", "classes", "workers"}
    assert topics(content, "note") == {"odd", "huge", "duplicates", "hidden", "batch", "device"}
    (broken,) = (finding for finding in content["findings"] if finding["topic"] == "broken")
    assert broken["items"] == ["dog/empty.png: the file is empty"]
    assert "error    1 training image of 21 cannot be read: dog/empty.png: the file is empty" in done.out
    assert "-> mend or remove them, or give --data.on_error skip" in done.out
    assert all(finding["fix"] for finding in content["findings"] if finding["severity"] != "note")


def test_skipped_images_are_no_error_up_to_their_share(doctor, folder):
    (folder / "train/dog/empty.png").write_bytes(b"")
    for share, code in ((0.1, 0), (0.01, 1)):
        done, _ = doctor("--data.on_error", "skip", "--data.max_broken", share)
        assert done.code == code


def test_class_that_training_lacks(doctor, folder):
    (folder / "val/360").mkdir()
    Image.new("RGB", (16, 16)).save(folder / "val/360/a.png")
    done, content = doctor()
    assert done.code == 1
    assert topics(content, "error") == {"data"}
    assert "has the class folder '360'" in done.out
    assert "looked at 16 of 16 training images" in done.out


@pytest.mark.parametrize(
    ("words", "topic", "said"),
    [
        (("--data.batch_size", 32), "batch", "give --data.batch_size 16 or less"),
        (("--data.image_size", 17), "config", "do not divide the image size 17"),
        (("--model.schedule.warmup_steps", 8, "--trainer.max_epochs", 2), "config", "warm-up of 8 steps"),
    ],
)
def test_configs_that_cannot_run(doctor, words, topic, said):
    done, content = doctor(*words)
    assert done.code == 1
    assert topics(content, "error") == {topic}
    assert said in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, 15),
        ({"accumulate_grad_batches": 2}, 9),  # an epoch's last batch is stepped on alone
        ({"accumulate_grad_batches": 2, "limit_train_batches": 4}, 6),
        ({"accumulate_grad_batches": 2, "limit_train_batches": 0.4}, 3),
        ({"num_devices": 2}, 6),
        ({"num_nodes": 2, "max_steps": 5}, 5),
        ({"max_epochs": -1}, math.inf),
        ({"max_epochs": -1, "max_steps": 7}, 7),
    ],
)
def test_the_steps_are_those_that_a_fit_takes(settings, steps):
    """Ten images in batches of two, three epochs."""
    usual = {"num_devices": 1, "num_nodes": 1, "limit_train_batches": 1.0, "max_epochs": 3, "max_steps": -1}
    trainer = SimpleNamespace(**{**usual, "accumulate_grad_batches": 1, **settings})
    assert _steps(trainer, 10, 2) == steps


def test_a_name_list_is_cut_on_the_screen_and_whole_in_the_file(doctor, folder):
    for number in range(5):
        (folder / f"train/dog/{number}.png").write_bytes(b"")
    done, content = doctor()
    assert "dog/2.png: the file is empty, ..." in done.out
    assert "dog/3.png" not in done.out
    assert len(content["findings"][0]["items"]) == 5


def test_unlabelled_images(app, folder):
    (folder / "train/dog/1.png").write_bytes(b"")
    files = ("--data", "datamodules.images.Images", "--data.files", folder / "train/dog", "--data.image_size", 16)
    done = app("doctor", *NET, *files, "--data.num_workers", 0)
    assert "1 test image of 8 cannot be read" in done.out


def test_one_set_in_two_roles_is_no_leak(app, tmp_path, monkeypatch):
    (tmp_path / "roles.py").write_text(
        "from datamodules.synthetic import Synthetic\n"
        "class Roles(Synthetic):\n"
        "    def setup(self, stage):\n"
        "        super().setup(stage)\n"
        "        self.val_set = self.test_set\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = app("doctor", *NET, "--data", "roles.Roles", "--data.train_size", 200, "--data.eval_size", 20)
    assert done.code == 0, done.err
    assert "looked at 20 of 20 validation images" in done.out
    assert "0 errors, 0 warnings" in done.out


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("gone/x.json", "there is no folder gone in "),
        (".", "a folder"),
        ("/proc/x.json", "--json /proc/x.json cannot be written: "),
    ],
)
def test_a_json_that_cannot_be_written_is_said_first(doctor, file, said):
    done, _ = doctor("--json", file)
    assert done.code == 1
    assert said in done.err.splitlines()[-1]
    assert "looked at" not in done.out and "Traceback" not in done.err


def test_what_the_data_say_is_said_once(doctor, folder):
    (folder / "train/cat/notes.txt").touch()
    done, _ = doctor()
    assert (done.out + done.err).count("hidden or other files") == 1


def test_other_data_are_refused(app, tmp_path, monkeypatch):
    (tmp_path / "plain.py").write_text(
        "from lightning.pytorch import LightningDataModule\n"
        "class Plain(LightningDataModule):\n"
        "    num_classes, image_size, mean, std = 3, 32, None, None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    done = app("doctor", *NET, "--data", "plain.Plain")
    assert done.code == 1
    assert "data that subclass ImageDataModule, which Plain does not" in done.err.splitlines()[-1]


def picture() -> bytes:
    content = io.BytesIO()
    Image.fromarray(CHANCE.integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(content, "PNG")
    return content.getvalue()


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def samples(*names: str) -> bytes:
    """A tar of samples, whose first letter is their class."""
    return tar_of(
        {f"{name}.{end}": data for name in names for end, data in (("png", picture()), ("cls", name[:1].encode()))}
    )


CUT = "cannot be read as a tar ("


def faults(content: dict) -> list[str]:
    return [finding["text"] for finding in content["findings"] if "as a tar" in finding["text"]]


def test_webshards_that_are_cut_off_are_named_and_the_others_looked_at(app, tmp_path):
    tars = [samples("0a", "1b", "0c"), samples("1d", "0e"), samples("0f", "1g", "1h")]
    for number, tar in enumerate(tars):
        (tmp_path / f"train-{number}.tar").write_bytes(tar)
    (tmp_path / "val.tar").write_bytes(samples("0v", "1w"))
    for name, keep in (("train-0.tar", 3100), ("train-2.tar", 100)):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:keep])
    data = ("--data", "WebShards", "--data.root", tmp_path, "--data.val", "val.tar", "--data.cache", tmp_path / "cache")
    data += ("--data.image_size", 8, "--data.batch_size", 2, "--data.num_workers", 0)
    done = app("doctor", *NET, *data, "--json", "found.json")
    assert done.code == 1 and "Traceback" not in done.err
    content = json.loads(Path("found.json").read_text())
    first, second = faults(content)
    assert first.startswith(f"{tmp_path}/train-0.tar {CUT}") and second.startswith(f"{tmp_path}/train-2.tar ")
    assert topics(content, "error") == {"data"}
    assert content["images"] == {
        "training": {"images": 3, "unreadable": 0},
        "validation": {"images": 2, "unreadable": 0},
    }
    fit = app("fit", *NET, *data)
    assert fit.code == 1 and fit.err.splitlines()[-1].startswith(f"error: {tmp_path}/train-0.tar {CUT}")
    assert not Path("runs").exists()
    for number, tar in enumerate(tars):
        (tmp_path / f"train-{number}.tar").write_bytes(tar)
    done = app("doctor", *NET, *data, "--json", "found.json")
    assert done.code == 0, done.err
    assert json.loads(Path("found.json").read_text())["images"]["training"]["images"] == 8


def test_no_tar_that_can_be_read_is_an_error_too(app, tmp_path):
    (tmp_path / "train.tar").write_bytes(samples("0a")[:100])
    data = ("--data", "WebShards", "--data.root", tmp_path, "--data.cache", tmp_path / "cache")
    done = app("doctor", *NET, *data, "--data.image_size", 8, "--data.num_workers", 0)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith(f"error: {tmp_path}/train.tar {CUT}")
    (tmp_path / "train.tar").write_bytes(tar_of({}))
    done = app("doctor", *NET, *data, "--data.image_size", 8, "--data.num_workers", 0)
    assert done.code == 1
    assert f"{tmp_path}/train*.tar hold no samples" in done.err.splitlines()[-1]


@pytest.mark.parametrize("split", ["train", "val", "inner"])
def test_original_tars_that_are_cut_off_are_named_and_the_others_looked_at(app, tmp_path, split):
    inner = {
        f"{wnid}.tar": tar_of({f"{wnid}_{number}.JPEG": picture() for number in range(3)})
        for wnid in ("n01440764", "n01443537", "n01484850")
    }
    if split == "inner":  # cut off before it was packed
        inner["n01443537.tar"] = inner["n01443537.tar"][:1024]
    outer = {"train": tar_of(inner), "val": tar_of({f"ILSVRC2012_val_0000000{n}.JPEG": picture() for n in (1, 2, 3)})}
    if split in outer:
        tar = outer[split]
        outer[split] = tar[: tar.rindex(b"n01484850.tar" if split == "train" else b"ILSVRC2012_val_00000003.JPEG")]
    for name, content in outer.items():
        (tmp_path / f"ILSVRC2012_img_{name}.tar").write_bytes(content)
    data = ("--data", "ImageNet1k", "--data.root", tmp_path, "--data.cache", tmp_path / "cache", "--data.image_size", 8)
    data += ("--data.val_fraction", 0, "--data.num_workers", 0, "--data.batch_size", 2)
    done = app("doctor", *NET, *data, "--json", "found.json")
    assert done.code == 1 and "Traceback" not in done.err
    content = json.loads(Path("found.json").read_text())
    (said,) = faults(content)
    named = "train.tar/n01443537" if split == "inner" else split
    assert said.startswith(f"{tmp_path}/ILSVRC2012_img_{named}.tar {CUT}")
    assert {name: images["images"] for name, images in content["images"].items()} == {
        "training": {"train": 6, "inner": 7, "val": 9}[split],
        "validation": 2 if split == "val" else 3,
    }
    fit = app("fit", *NET, *data)
    assert fit.code == 1 and said in fit.err.splitlines()[-1]


@pytest.mark.parametrize("split", ["train", "val", "inner"])
def test_a_tar_that_is_cut_inside_an_image_has_one_remedy(app, tmp_path, split):
    """An image of which the tar holds a part is no broken image: neither --data.on_error nor --data.reindex helps."""
    inner = {
        f"{wnid}.tar": tar_of({f"{wnid}_{number}.JPEG": picture() for number in range(3)})
        for wnid in ("n01440764", "n01443537", "n01484850")
    }
    last = {"train": b"n01484850_2.JPEG", "val": b"ILSVRC2012_val_00000003.JPEG", "inner": b"n01443537_2.JPEG"}[split]

    def cut(tar: bytes) -> bytes:
        return tar[: tar.rindex(last) + 700]  # its header and some of its pixels

    if split == "inner":
        inner["n01443537.tar"] = cut(inner["n01443537.tar"])
    outer = {"train": tar_of(inner), "val": tar_of({f"ILSVRC2012_val_0000000{n}.JPEG": picture() for n in (1, 2, 3)})}
    whole = dict(outer)
    if split in outer:
        outer[split] = cut(outer[split])
    data = ("--data", "ImageNet1k", "--data.root", tmp_path, "--data.cache", tmp_path / "cache", "--data.image_size", 8)
    data += ("--data.val_fraction", 0, "--data.num_workers", 0, "--data.batch_size", 2)
    for name, content in outer.items():
        (tmp_path / f"ILSVRC2012_img_{name}.tar").write_bytes(content)
    done = app("doctor", *NET, *data, "--json", "found.json")
    assert done.code == 1
    content = json.loads(Path("found.json").read_text())
    assert "data" in topics(content, "error") and "broken" not in topics(content, "error")
    assert "reindex" not in done.out and "on_error" not in done.out and "fetch it again" in done.out
    counts = {name: images["images"] for name, images in content["images"].items()}
    assert counts["training"] in {"train": (6, 7, 8), "inner": (8,), "val": (9,)}[split]  # buffers hide small images
    assert counts["validation"] == (2 if split == "val" else 3)
    if split != "inner":
        (tmp_path / f"ILSVRC2012_img_{split}.tar").write_bytes(whole[split])
        done = app("doctor", *NET, *data, "--json", "found.json")
        found = json.loads(Path("found.json").read_text())
        assert faults(found) == [] and found["images"]["training"]["images"] == 9


@pytest.mark.parametrize(("sets", "gib"), [((True, True), "0.38"), ((True, False), "0.19"), ((False, True), "0.19")])
def test_shared_memory_is_counted_for_the_loaders_of_a_fit(sets, gib):
    """Batches of 64 images of 3 x 256 x 512 bytes are 24 MiB; two workers keep two of them, on two devices."""
    hardware = Machine(cores=16, shared_memory=2**28, devices=2)
    sets = [range(500) if there else None for there in sets]
    pixels = {"channels": None, "window": None, "finds_window": False}
    data = SimpleNamespace(
        size=(256, 512), batch_size=64, workers=2, train_subset=sets[0], val_set=sets[1], test_set=range(9), **pixels
    )
    found = {finding.topic: finding for finding in _machine(hardware, data)}
    assert f"keep {gib} GiB of batches ready" in found["shared memory"].text
    assert ("batch" in found) == (sets[0] is not None)


def test_the_screen_names_three_and_counts_each_severity():
    found = [
        Finding("error", "a", "one", "mend it", ("w", "x", "y")),
        Finding("error", "b", "two", items=("w", "x", "y", "z")),
        Finding("note", "c", "three"),
    ]
    assert [*_lines(found), _totals(found)] == [
        "error    one: w, x, y",
        "         -> mend it",
        "error    two: w, x, y, ...",
        "note     three",
        "doctor   2 errors, 0 warnings, 1 note",
    ]


def test_hidden_folders_are_named_from_the_root_and_not_entered(tmp_path):
    for folder in ("a/.git/.deep", "a/b/.x", ".top", "a/plain"):
        (tmp_path / folder).mkdir(parents=True)
    assert sorted(_hidden_folders(tmp_path)) == ["./.top", "a/.git", "a/b/.x"]
    assert list(_hidden_folders(None)) == []


OWN = """
import numpy as np
from vit_lightning.data import ImageDataModule


class {name}(ImageDataModule):
    num_classes = 2

    def setup(self, stage):
        pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
        images = [(one, number % 2) for number, one in enumerate(pixels)]
        self.train_set, self.val_set = images[:8], images[8:]
        {change}
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("self.val_set = self.train_set", "warning  the validation set is the training set"),
        ("self.train_set = []", "error    OwnSet1 has no training images, which this command needs"),
        ("self.train_set[0] = (np.zeros(0, np.uint8), 0)", "cannot be read: 0: an image array must be uint8 or float"),
    ],
)
def test_sets_of_ones_own_are_told_once(app, tmp_path, monkeypatch, request, change, said):
    number = request.node.callspec.indices["change"]
    (tmp_path / f"own_set_{number}.py").write_text(OWN.format(name=f"OwnSet{number}", change=change))
    monkeypatch.syspath_prepend(tmp_path)
    words = ("--data", f"own_set_{number}.OwnSet{number}", "--data.image_size", 16, "--data.batch_size", 4)
    done = app("doctor", *NET, *words, "--data.num_workers", 0)
    text = done.out + done.err
    assert done.code == (0 if number == 0 else 1) and text.count(said) == 1 and "too few" not in text
    assert text.count("an image array must be") == (number == 2)
