"""Shifted sets: data with some of a net's classes, or with other names for them, are scored on these classes alone."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from PIL import Image

from datamodules.folder import ImageFolder
from datamodules.imagenet import ImageNet1k
from datamodules.reading import synsets
from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError

NET = ["bird", "car", "cat", "dog", "fish"]
CPU = ("--trainer.accelerator", "cpu", "--data.num_workers", 0, "--data.image_size", 8, "--data.batch_size", 3)


def picture(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def random_classifier(classes: int, names: list[str]) -> Classifier:
    torch.manual_seed(1)
    model = Classifier(net={"variant": "mu/8"}, num_classes=classes, image_size=8)
    torch.nn.init.normal_(model.net.head.weight)
    model.class_names = names
    return model


@pytest.fixture
def net(app, tmp_path):
    """A net of five classes in net.ckpt, and images of three of these in other folders."""
    model = random_classifier(5, NET)
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0", "class_names": NET}
    path = "vit_lightning.classifier.Classifier"
    torch.save({"state_dict": model.state_dict(), "model": path} | facts, tmp_path / "net.ckpt")
    for number in range(14):
        picture(tmp_path / "night/test" / ("fish", "bird", "cat")[number % 3] / f"{number}.png", number)
    return app


def expected(columns: list[str], folder: str = "night/test") -> float:
    """Share of the images whose best class among these is that of their folder."""
    model = random_classifier(5, NET).eval()
    data = ImageFolder(root=Path(folder).parent, image_size=8, batch_size=50, num_workers=0)
    right = []
    for file in sorted(Path(folder).rglob("*.png")):
        with torch.no_grad():
            pixels = torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)
            logits = model(data.eval_transform()(pixels)[None])[0, [NET.index(name) for name in columns]]
        right.append(columns[int(logits.argmax())] == file.parent.name)
    return sum(right) / len(right)


def top1(app, *words: object) -> float:
    done = app("test", "net.ckpt", *CPU, *words)
    assert done.code == 0, done.err
    row = next(line for line in done.out.splitlines() if line.startswith("test "))
    return float(row.split("%")[0].split()[-1]) / 100


def test_some_of_the_classes_are_scored_among_themselves(net):
    done = net("test", "net.ckpt", *CPU, "--data", "ImageFolder", "--data.root", "night", "--model.scores", "[classes]")
    assert done.code == 0, done.err
    assert "scored on 3 of 5 classes" in done.out
    share = expected(["bird", "cat", "fish"])
    assert f"{share:.2%}".replace("%", " %") in done.out and share != expected(NET)
    rows = Path("test.classes.csv").read_text().splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [["bird", "5"], ["cat", "4"], ["fish", "5"]]


def test_folders_are_renamed_and_merged_by_a_class_map(net, tmp_path):
    for folder, name in (("n1", "bird"), ("n2", "cat"), ("n3", "fish")):
        shutil.copytree(tmp_path / "night/test" / name, tmp_path / "wnids/test" / folder)
    (tmp_path / "wnids/test/n1b").mkdir()
    first = min((tmp_path / "wnids/test/n1").iterdir())
    first.rename(tmp_path / "wnids/test/n1b" / first.name)
    classes = {"n1": "bird", "n1b": "bird", "n2": "cat", "n3": "fish", "n4": "dog"}
    (tmp_path / "map.json").write_text(json.dumps(classes))
    (tmp_path / "map.csv").write_text("folder,class\n" + "".join(f"{pair[0]},{pair[1]}\n" for pair in classes.items()))
    share = expected(["bird", "cat", "fish"])
    for name in ("map.json", "map.csv"):
        words = ("--data", "ImageFolder", "--data.root", "wnids", "--data.class_map", name)
        assert top1(net, *words) == pytest.approx(share, abs=1e-4)


def test_predict_answers_among_the_classes_of_the_data(net):
    done = net("predict", "net.ckpt", *CPU, "--data", "ImageFolder", "--data.root", "night", "--out", "x.jsonl")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()]
    assert {tuple(sorted(row["probabilities"])) for row in rows} == {("bird", "cat", "fish")}
    right = [row["label"] == max(row["probabilities"], key=row["probabilities"].get) for row in rows]
    assert sum(right) / len(right) == pytest.approx(expected(["bird", "cat", "fish"]))


def test_several_sets_are_a_row_each_by_name(net, tmp_path):
    for number in range(11):
        picture(tmp_path / "day" / ("dog", "car")[number % 2] / f"{number}.png", 100 + number)
        for name in NET:
            picture(tmp_path / "own/test" / name / f"{number}.png", 200 + number + 20 * len(name))
    words = ("--data", "ImageFolder", "--data.root", "own", "--data.also", "{night: night/test, day: day}")
    done = net("test", "net.ckpt", *CPU, *words)
    assert done.code == 0, done.err
    table = {line.split()[0]: line for line in done.out.splitlines() if "%" in line}
    assert set(table) >= {"test", "night", "day"} and "ataLoader" not in done.out
    for name, columns, folder in (
        ("night", ["bird", "cat", "fish"], "night/test"),
        ("day", ["car", "dog"], "day"),
        ("test", NET, "own/test"),
    ):
        assert f" {expected(columns, folder):.2%}".replace("%", " %") in table[name]
    assert table["night"].split()[1] == "14" and table["day"].split()[1] == "11"


WRONG = {
    "an unknown class": (("--data.root", "odd"), "'horse' is none of these"),
    "a map of an unknown class": (
        ("--data.root", "night", "--data.class_map", "x.json"),
        "'whale' is no class of the net",
    ),
    "a folder twice": (("--data.root", "night", "--data.class_map", "x.csv"), "has the folder 'cat' twice"),
    "no folder": (("--data.root", "night", "--data.also", "{day: nowhere}"), "--data.also day: there is no folder"),
    "a score's name": (("--data.root", "night", "--data.also", "{top1: night}"), "--data.also 'top1'"),
    **{
        f"a set called {name}": (("--data.root", "night", "--data.also", f"{{{name}: night}}"), f"--data.also '{name}'")
        for name in ("train", "val", "test", "mean", "member1", "a-b", "keys")
    },
    "a further unknown class": (("--data.root", "night", "--data.also", "{day: odd/test}"), "the class folder 'horse'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_scored_is_a_sentence(net, tmp_path, name):
    picture(tmp_path / "odd/test/horse/1.png", 1)
    picture(tmp_path / "odd/test/cat/1.png", 1)
    (tmp_path / "x.json").write_text('{"cat": "whale"}')
    (tmp_path / "x.csv").write_text("cat,bird\ncat,fish\n")
    words, said = WRONG[name]
    done = net("test", "net.ckpt", *CPU, "--data", "ImageFolder", *words)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err


def test_a_trainer_scores_them_too(net, tmp_path, capfd):
    model = random_classifier(5, NET)
    data = ImageFolder(root=tmp_path / "night", image_size=8, batch_size=3, num_workers=0)
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    found = trainer.test(model, data, verbose=False)[0]
    assert found["test/top1"] == pytest.approx(expected(["bird", "cat", "fish"]), abs=1e-6)
    model.shifted = None
    with pytest.raises(InputError, match="classes"):
        trainer.test(random_classifier(5, ["a", "b", "c", "d", "e"]), data)


def test_links_among_further_sets_and_renamed_folders_are_found(tmp_path):
    for number, name in enumerate(("own/train/n1", "own/train/n2", "own/val/n1", "own/val/n2", "day/n1", "day/n2")):
        picture(tmp_path / name / f"{number}.png", number)
    (tmp_path / "map.json").write_text('{"n1": "bird", "n2": "cat", "n1b": "bird"}')
    options = {"root": tmp_path / "own", "image_size": 8, "class_map": tmp_path / "map.json"}
    options["also"] = {"day": tmp_path / "day", "again": tmp_path / "own/val"}
    link = tmp_path / "own/train/n1b/0.png"
    link.parent.mkdir()
    os.link(tmp_path / "own/train/n1/0.png", link)  # of one class
    ImageFolder(**options).setup("fit")
    for target in ("own/train/n2/1.png", "day/n1/4.png"):
        link.unlink()
        os.link(tmp_path / target, link)
        with pytest.raises(InputError, match=r"are one through a link; keep it in one class of one split"):
            ImageFolder(**options).setup("fit")
    link.unlink()
    os.link(tmp_path / "own/train/n1/0.png", tmp_path / "day/n1/trained.png")
    with pytest.raises(InputError, match=r"are one through a link"):
        ImageFolder(**options).setup("fit")


def test_further_sets_and_renamed_folders_have_the_layout_of_classes(tmp_path):
    for number, name in enumerate(("own/train/n1", "own/train/n2", "own/test/n1", "day/n1", "day/n2/images")):
        picture(tmp_path / name / f"{number}.png", number)
    (tmp_path / "map.json").write_text('{"n1": "bird", "n2": "cat"}')
    options = {"root": tmp_path / "own", "image_size": 8, "class_map": tmp_path / "map.json"}
    options["also"] = {"day": tmp_path / "day"}
    ImageFolder(**options).setup("fit")
    picture(tmp_path / "day/n2/masks/5.png", 5)
    (tmp_path / "less.json").write_text('{"n1": "bird"}')
    data = ImageFolder(**options)
    data.setup("fit")  # the map names the class
    assert any("day holds n2/masks beside other images of the class n2" in said for said in data.notices)
    with pytest.raises(InputError, match=r"day holds n2/masks beside other images of the class n2"):
        ImageFolder(**options | {"class_map": None}).setup("fit")
    shutil.move(tmp_path / "day/n2/masks", tmp_path / "own/train/n2/masks")
    with pytest.raises(InputError, match=r"train holds n2/masks beside other images of the class n2"):
        ImageFolder(**options | {"class_map": tmp_path / "less.json"}).setup("fit")
    shutil.rmtree(tmp_path / "own/train/n2/masks")
    picture(tmp_path / "day/n1/train/6.png", 6)
    with pytest.raises(InputError, match=r"day has the splits inside its classes, as n1/train"):
        ImageFolder(**options).setup("fit")


def test_folders_that_a_renaming_lists_are_classes(tmp_path):
    for number, name in enumerate(("trainA", "trainB")):
        picture(tmp_path / "own/train" / name / f"{number}.png", number)
    with pytest.raises(InputError, match="called as parts of a set are"):
        ImageFolder(root=tmp_path / "own", image_size=8).setup("fit")
    (tmp_path / "map.json").write_text('{"trainA": "horse", "trainB": "zebra"}')
    data = ImageFolder(root=tmp_path / "own", image_size=8, class_map=tmp_path / "map.json")
    data.setup("fit")
    assert data.class_names == ["horse", "zebra"]


class Carried(ImageDataModule):
    """Data whose classes are numbers, and whose test images may carry names of these."""

    num_classes = 2
    carried: dict[str, int] | None = None

    def setup(self, stage: str) -> None:
        names = ("fish", "bird")
        files = sorted(file for name in names for file in Path("night/test", name).glob("*.png"))
        self.test_set = CarriedSet([(file, names.index(file.parent.name)) for file in files])
        if self.carried:
            self.test_set.class_to_idx = self.carried


class CarriedSet(list):
    """Images with labels; names of the classes may be set beside."""


def test_names_that_sets_carry_say_which_classes_they_have(net):
    data = Carried(image_size=8, batch_size=3, num_workers=0)
    data.carried = {"fish": 0, "bird": 1}
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    state = torch.load("net.ckpt", weights_only=True)
    state["seen_labels"] = {"class_names": {number: [name] for number, name in enumerate(NET)}}
    torch.save(state, "seen.ckpt")
    found = trainer.test(random_classifier(5, NET), data, ckpt_path="seen.ckpt", verbose=False)[0]
    shutil.rmtree("night/test/cat")
    assert found["test/top1"] == pytest.approx(expected(["fish", "bird"]), abs=1e-6)


@pytest.mark.parametrize("names", [NET, list("01234")])
def test_numbers_alone_are_never_some_of_the_classes(net, names):
    data = Carried(image_size=8, batch_size=3, num_workers=0)
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    with pytest.raises(InputError, match=r"num_classes is 5, but that of Carried is 2"):
        trainer.test(random_classifier(5, names), data)


# ImageNet's --------------------------------------------------------------------------------------------------------


@pytest.fixture
def imagenet(tmp_path):
    """Some images of each shifted set of ImageNet."""
    root = tmp_path / "imagenet"
    for name, folder in (("a", "imagenet-a"), ("r", "imagenet-r"), ("1k", "sketch"), ("1k", "imagenet-w")):
        for number, wnid in enumerate(synsets.wnids(name)[:: 200 // 5][:5]):
            picture(root / folder / wnid / f"{number}.png", number)
    picture(root / "val/n01440764/ILSVRC2012_val_00000293.JPEG", 0)
    return root


def test_imagenets_shifted_sets_are_scored_on_their_classes(imagenet):
    model = random_classifier(1000, [])
    data = ImageNet1k(root=imagenet, also=("a", "r", "sketch", "w"), allow_incomplete=True, cache=imagenet / "cache")
    data.image_size, data.batch_size, data.num_workers = 8, 2, 0
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    trainer.test(model, data, verbose=False)
    found = {name: float(value) for name, value in trainer.callback_metrics.items()}
    model.eval()
    for name, sets in (("a", "a"), ("r", "r"), ("sketch", "1k"), ("w", "1k")):
        columns = np.searchsorted(synsets.wnids("1k"), synsets.wnids(sets))
        right = 0
        for pixels, label in data.further_sets[name]:
            picture_of = torch.from_numpy(np.array(Image.open(pixels))).permute(2, 0, 1)
            with torch.no_grad():
                logits = model(data.eval_transform()(picture_of)[None])[0, torch.from_numpy(columns)]
            right += int(columns[int(logits.argmax())]) == label
        assert found[f"test/{name}"] == pytest.approx(right / 5)
        assert data.further_sets[name].scored_classes is None or len(data.further_sets[name].scored_classes) == 200


def test_one_of_them_can_be_the_test_set(imagenet):
    data = ImageNet1k(root=imagenet, test="a", allow_incomplete=True, cache=imagenet / "cache")
    data.image_size, data.batch_size, data.num_workers = 8, 2, 0
    model = random_classifier(1000, [])
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
    trainer.test(model, data, verbose=False)
    assert len(model.split_scores["test"].summed.counts.support) == 200 == len(model.scored_names("test"))
    assert model.split_scores["test"].notes[0] == "scored on 200 of 1,000 classes"


def test_watermarked_images_are_the_validation_images_and_lie_in_their_classes(imagenet):
    options = {"root": imagenet, "image_size": 8, "test": "w", "cache": imagenet / "cache", "allow_incomplete": True}
    picture(imagenet / "imagenet-w/n01440764/ILSVRC2012_val_00000293.JPEG", 1)  # of the tench, which it is
    data = ImageNet1k(**options)
    data.setup("test")
    assert len(data.test_set) == 6
    picture(imagenet / "imagenet-w/n01443537/ILSVRC2012_val_00000293.JPEG", 2)
    with pytest.raises(InputError, match=r"00000293.JPEG has the label of another class; it belongs to n01440764"):
        ImageNet1k(**options | {"cache": imagenet / "anew"}).setup("test")


def test_a_shifted_set_that_is_not_whole_or_another_is_a_sentence(imagenet):
    options = {"root": imagenet, "image_size": 8, "test": "a", "cache": imagenet / "cache"}
    shutil.rmtree(imagenet / "val")
    with pytest.raises(InputError, match=r"imagenet-a has 5 a images where 7,500 were published"):
        ImageNet1k(**options).setup("test")
    picture(imagenet / "imagenet-r/n01440764/1.png", 3)  # tench is of neither
    picture(imagenet / "imagenet-r/n01443537/1.png", 3)
    with pytest.raises(InputError, match=r"is of no class of ImageNet-R"):
        ImageNet1k(**options | {"test": "r", "allow_incomplete": True}).setup("test")
    with pytest.raises(InputError, match=r"sketch is missing: unpack the set there"):
        ImageNet1k(**options | {"test": "sketch", "root": imagenet / "sketch"}).setup("test")
