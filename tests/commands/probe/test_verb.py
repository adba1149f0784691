"""The verb probe through the command line."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.digits import Digits
from vit_lightning.classifier import Classifier
from vit_lightning.evaluation import fewshot, knn, logistic
from vit_lightning.masked_patch import MaskedPatch

CPU = ("--trainer.accelerator", "cpu")
FEW = ("--shots", "[1,5]", "--seeds", 2, "--neighbours", "[10]")
DATA = '''
import torch
from vit_lightning.data import ImageDataModule


class Listed:
    """Images whose labels are given, of which `told` says whether the set knows them at once."""

    def __init__(self, labels, told, side=8):
        self.side, self.given = side, labels
        if told and not isinstance(labels[0], list):
            import numpy as np
            self.labels = np.array(labels)

    def __len__(self):
        return len(self.given)

    def __getitem__(self, index):
        label = self.given[index]
        image = torch.randint(256, (3, self.side, self.side), generator=torch.Generator().manual_seed(index))
        return image.to(torch.uint8), torch.tensor(label, dtype=torch.float32) if isinstance(label, list) else label


class Some(ImageDataModule):
    num_classes = 3

    def __init__(self, train: str = "012" * 5, test: str = "012", told: bool = True, many: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.told = told
        self.given = [[-100 if letter == "x" else int(letter) for letter in text] for text in (train, test)]
        if many:
            self.given = [[[1.0, 1.0, 0.0] for _ in part] for part in self.given]

    def setup(self, stage):
        self.train_set, self.test_set = (Listed(part, self.told) for part in self.given)
'''
SOME = ("--data", "some.Some", "--data.image_size", 8, "--data.batch_size", 4, "--data.num_workers", 0, *CPU)


def model(num_classes: int = 10, image_size: int = 16, **net) -> Classifier:
    torch.manual_seed(0)
    made = Classifier(net={"variant": "mu/8"} | net, num_classes=num_classes, image_size=image_size)
    torch.nn.init.normal_(made.net.head.weight)
    return made


def save(made, path: str = "net.ckpt") -> None:
    facts = {"hyper_parameters": dict(made.hparams), "pytorch-lightning_version": "2.6.0"}
    facts["model"] = f"{type(made).__module__}.{type(made).__qualname__}"
    torch.save({"state_dict": made.state_dict()} | facts, path)


def features_of(made: Classifier, images) -> tuple[torch.Tensor, np.ndarray]:
    """By the net itself, an image at a time."""
    with torch.no_grad():
        rows = [made.eval().net.features(made.normalise(images[i][0][None])) for i in range(len(images))]
    return torch.cat(rows), np.array([images[i][1] for i in range(len(images))])


def found(folder: str = "probe") -> dict:
    return json.loads((Path(folder) / "probe.json").read_text())


def scores(content: dict) -> list:
    return [(row["probe"], row["setting"], row["values"], row["regularisation"]) for row in content["rows"]]


@pytest.fixture
def some(app, tmp_path, monkeypatch):
    (tmp_path / "some.py").write_text(DATA)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "some", raising=False)
    save(model(3, 8))
    return lambda *words: app("probe", "--ckpt_path", "net.ckpt", *SOME, *words)


def test_every_score_is_that_of_the_nets_features(app):
    made = model(image_size=8)
    save(made)
    words = ("probe", "net.ckpt", "--data", "Digits", "--data.image_size", 8, "--data.batch_size", 100, *CPU, *FEW)
    done = app(*words)
    assert done.code == 0, done.err
    assert "extracted 1,248 of 1,248 training images" in done.out and "extracted 364 of 364 test images" in done.out
    assert "the net was trained on" not in done.out and "held-out images, loss " in done.out
    assert {path.name for path in Path().iterdir()} == {"net.ckpt", "probe"}
    assert "images/s" in done.out and "wrote    probe/probe.csv, probe/probe.json" in done.out
    data = Digits(image_size=8)
    data.setup("test")
    train, labels = features_of(made, data.train_set)
    test, wanted = features_of(made, data.test_set)
    expected = {}
    for shots in (1, 5):
        chosen = [fewshot.select(labels, 10, shots, seed) for seed in (0, 1)]
        expected[f"{shots} per class"] = [
            fewshot.solve(train[numbers], labels[numbers], 10).top1(test, wanted) for numbers in chosen
        ]
    expected["k 10"] = [float((knn.predict(train, labels, test, 10, (10,))[0].numpy() == wanted).mean())]
    expected["all images"] = [logistic.fit_chosen(train, labels, 10).top1(test, wanted)]
    rows = found()["rows"]
    assert [row["setting"] for row in rows] == list(expected)
    for row in rows:
        assert row["values"] == pytest.approx(expected[row["setting"]], abs=0.003)
        assert f"{100 * row['top1']:.2f} %" in done.out
    assert rows[0]["regularisation"] == "l2 1024" and rows[-1]["regularisation"].endswith(
        ", the least held-out loss within a standard error of the best"
    )
    assert rows[0]["deviation"] == pytest.approx(np.std(rows[0]["values"], ddof=1))
    assert found()["images"] == {"training": 1248, "test": 364} and found()["features"] == made.config.width
    assert all(0.0 < row["mean_class"] <= 1.0 and f"{100 * row['mean_class']:.2f} %" in done.out for row in rows)
    table = list(csv.DictReader(Path("probe/probe.csv").read_text().splitlines()))
    assert [float(row["top1"]) for row in table] == [row["top1"] for row in rows]

    again = app(*words)
    assert again.code == 0 and "extracted" not in again.out
    assert again.out.count("images are those of probe/features/") == 2
    assert scores(found()) == [(row["probe"], row["setting"], row["values"], row["regularisation"]) for row in rows]

    damaged = next(Path("probe/features").glob("test-*"))
    damaged.write_bytes(damaged.read_bytes()[:-10])
    done = app(*words)
    assert done.code == 0 and done.out.count("computed anew") == 1 and "extracted 364 of 364 test" in done.out
    assert "extracted 1,248" not in done.out


def test_files_are_there_before_a_score_is_printed(some, monkeypatch):
    monkeypatch.setattr("vit_lightning.commands.probe.verb.table", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        some("--probes", "[knn]", "--neighbours", "[3]")
    assert found()["rows"] and Path("probe/probe.csv").exists()


def test_features_of_another_net_are_not_taken(some):
    words = ("--shots", "[1]", "--neighbours", "[3]", "--probes", "[fewshot,knn]")
    assert some(*words).code == 0
    before = {path.name for path in Path("probe/features").iterdir()}
    save(model(3, 8, depth=2))
    assert "extracted 15 of 15" in some(*words).out
    after = {path.name for path in Path("probe/features").iterdir()}
    assert before < after and len(after) == 4
    for name in before:  # a file under another's name
        split = name.partition("-")[0]
        other = next(one for one in after - before if one.startswith(split))
        (Path("probe/features") / name).replace(Path("probe/features") / other)
    results = Path("probe/probe.json").read_bytes()
    done = some(*words)
    assert done.code == 1 and "holds the features of another net; remove it" in done.err.splitlines()[-1]
    assert Path("probe/probe.json").read_bytes() == results


def test_other_pixels_under_the_same_names_are_not_taken(some):
    words = ("--shots", "[1]", "--probes", "[fewshot]")
    assert some(*words).code == 0
    assert "extracted" not in some(*words).out
    text = Path("some.py").read_text()
    Path("some.py").write_text(text.replace("manual_seed(index)", "manual_seed(index + 7)"))
    del __import__("sys").modules["some"]
    assert "extracted 15 of 15 training images" in some(*words).out
    assert "extracted 15 of 15 training images" in some(*words, "--data.image_size", 16).out


def test_a_run_folder_is_probed_on_its_own_images(app):
    fit = app("fit", "--data", "Digits", "--model.net.variant", "mu/8", "--trainer.max_epochs", 1, *CPU)
    assert fit.code == 0, fit.err
    done = app("probe", "runs/default/0", *CPU, *FEW, "--probes", "[fewshot,knn]")
    assert done.code == 0, done.err
    assert "probed   runs/default/0/checkpoints/best.ckpt" in done.out
    content = found("runs/default/0")
    assert content["net"].endswith("runs/default/0/checkpoints/best.ckpt") and content["image_size"] == [16, 16]
    assert len(list(Path("runs/default/0/features").iterdir())) == 2 and not Path("probe").exists()
    assert "the net was trained on" not in done.out
    logistic_alone = app("probe", "runs/default/0", *CPU, "--probes", "[logistic]")
    assert "warning  the net was trained on these training images (" in logistic_alone.out, logistic_alone.err
    other = app("probe", "runs/default/0", *CPU, *FEW, "--probes", "[knn]", "--out", "elsewhere", "--cache", "kept")
    assert (
        other.code == 0 and found("elsewhere")["rows"][0]["probe"] == "k-NN" and len(list(Path("kept").iterdir())) == 2
    )


def test_classes_and_size_of_the_net_need_not_be_the_datas(app):
    """A net of three classes with a tanh layer, at another image size: its features are what its head reads."""
    save(model(3, 16, representation=12))
    words = ("--data", "Digits", *CPU, *FEW, "--probes", "[fewshot]")
    for form in (("probe", "net.ckpt"), ("probe", "--model.weights", "net.ckpt")):
        done = app(*form, *words, "--data.image_size", 24)
        assert done.code == 0, done.err
        assert found()["features"] == 12 and found()["image_size"] == [24, 24]
    done = app("probe", "--model.weights", "net.ckpt", *words, "--model.weights_head", "reset")
    assert done.code == 0 and found()["features"] == model().config.width


def test_a_masked_patch_checkpoint_has_features(app):
    torch.manual_seed(0)
    save(MaskedPatch(net={"variant": "mu/8"}, num_classes=0, image_size=16))
    done = app("probe", "net.ckpt", "--data", "Digits", *CPU, *FEW, "--probes", "[knn]")
    assert done.code == 0, done.err
    assert found()["rows"][0]["top1"] > 0.2


def test_the_original_protocol(some):
    done = some("--protocol", "original", "--probes", "[fewshot]", "--shots", "[1,2,5]")
    assert done.code == 0, done.err
    rows = found()["rows"]
    assert [len(row["values"]) for row in rows] == [1, 1, 1]
    assert all(row["regularisation"].endswith(", the best of 30 on the test images") for row in rows)


def test_validation_images_stand_in_for_test_images(app, caplog):
    chance = np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 3)):
        for place, name in enumerate(("cat", "dog")):
            (Path("set") / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = chance.integers(100 * place, 100 * place + 100, (12, 12, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(Path("set") / split / name / f"{number}.png")
    save(model(2, 8))
    words = ("--data", "ImageFolder", "--data.root", "set", "--data.image_size", 8, "--data.num_workers", 0, *CPU)
    few = ("--shots", "[1,3]", "--neighbours", "[3]")
    done = app("probe", "net.ckpt", *words, *few)
    assert done.code == 0, done.err
    assert "scored   the validation images, since there are no test images" in done.out
    assert found()["scored"] == "validation" and found()["images"] == {"training": 12, "validation": 6}
    Path("set/train/cat/5.png").write_bytes(b"broken")
    results = []
    for in_memory in ("true", "false"):  # no other image stands in for the broken one, as it does in training
        skip = ("--data.on_error", "skip", "--data.max_broken", 0.2, "--data.in_memory", in_memory)
        done = app("probe", "net.ckpt", *words, *few, *skip, "--cache", in_memory)
        assert done.code == 0, done.err
        assert "11 of 12 training images have a label and could be read" in done.out
        named = [record for record in caplog.records if "5.png" in record.getMessage()]
        assert len(named) == 1  # and not for the digest and the features each
        caplog.clear()
        assert found()["images"]["training"] == 11
        results.append(scores(found()))
    assert results[0] == results[1]


@pytest.mark.parametrize("told", ["true", "false"])
def test_usual_shots_beyond_the_images_of_a_class_are_left_out(some, told):
    done = some("--data.told", told, "--data.train", "012" * 4 + "01" * 3)
    assert done.code == 0, done.err
    assert "without  shots 5, 10, 25, more than the 4 training images of class 2" in done.out.splitlines()
    assert "without  neighbours 20, 100, more than the 18 training images" in done.out.splitlines()
    assert [row["setting"] for row in found()["rows"]] == ["1 per class", "k 10", "all images"]


@pytest.mark.parametrize("told", ["true", "false"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shots", "[1,5,6]"), "--shots 6 is more than the 5 training images of class 0; give --shots [1,5],"),
        (("--shots", "[9]"), "--shots 9 is more than the 5 training images of class 0; give --shots of 5 or less,"),
        (("--neighbours", "[3,16]"), "--neighbours 16 is more than the 15 training images; give --neighbours [3],"),
        (("--data.train", "012"), "no class has two training images, one of which logistic regression holds out"),
        (("--data.train", "01010"), "the training images lack 1 of 3 classes: 2; give data with all of them"),
        (("--data.test", "0010"), "the test images lack 1 of 3 classes: 2"),
        (("--data.train", "11111"), "the training images are of one class alone"),
        (("--data.test", "xxx"), "none of the test images has a label"),
        (("--data.many", "true"), "the images have several labels each"),
    ],
)
def test_images_that_cannot_be_probed(some, told, words, said):
    done = some("--shots", "[1]", "--neighbours", "[3]", "--data.told", told, *words)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err
    assert not Path("probe/probe.json").exists() and not Path("probe/probe.csv").exists()
    if told == "true":  # before anything is computed
        assert "extracted" not in done.out and not Path("probe/features").exists()


@pytest.mark.parametrize(
    ("told", "said"),
    [("true", "none of the training images has a label"), ("false", "training image 0 has label -100, which stands")],
)
def test_training_images_without_labels_cannot_be_probed(some, told, said):
    done = some("--shots", "[1]", "--neighbours", "[3]", "--data.told", told, "--data.train", "xxxxx")
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err
    assert not Path("probe/probe.json").exists() and not Path("probe/probe.csv").exists()


def test_missing_classes_may_be_ignored(some):
    words = ("--data.train", "0101010101", "--data.test", "001102", "--shots", "[2]", "--neighbours", "[3]")
    done = some(*words, "--missing_classes", "ignore")
    assert done.code == 0, done.err
    assert all(row["top1"] <= 5 / 6 for row in found()["rows"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--shots", "[0]"), "--shots is 0, expected 1 or more"),
        (("--shots", "[]"), "--shots is empty"),
        (("--seeds", 0), "--seeds is 0, expected 1 or more"),
        (("--l2", 0), "--l2 is 0, expected a number above 0, such as 1024"),
        (("--temperature", -1), "--temperature is -1, expected a number above 0, such as 0.07"),
        (("--probes", "[svm]"), "svm"),
        (("--trainer.limit_predict_batches", 2), "probe goes through all images"),
        (("--out", "net.ckpt"), "net.ckpt"),
    ],
)
def test_flags_that_cannot_be(some, words, said):
    done = some(*words)
    assert done.code == 1 and said in done.err.splitlines()[-1], done.err
    assert "Traceback" not in done.err and not Path("probe/features").exists()


def test_a_probe_needs_a_net_and_classes(app):
    assert "probe needs a trained net" in app("probe", "--data", "Digits").err
    save(model(3, 8))
    Image.new("RGB", (9, 9)).save("x.png")
    done = app("probe", "net.ckpt", "--data", "Images", "--data.files", "x.png", *CPU)
    assert done.code == 1 and "probe needs images with classes, which Images does not give" in done.err


def test_features_that_are_not_finite(some, monkeypatch):
    features = type(model().net).features
    monkeypatch.setattr(type(model().net), "features", lambda net, images: features(net, images) / 0)
    done = some("--shots", "[1]", "--neighbours", "[3]")
    assert done.code == 1
    assert "features of 15 of 15 training images are not finite, first of 0;" in done.err.splitlines()[-1]
    assert not Path("probe/probe.json").exists() and not list(Path("probe").glob("features/*"))


@pytest.mark.parametrize("batch", [1, 4, 7])
def test_two_processes_find_the_same(some, together, batch):
    """15 training and 7 test images, which neither the processes nor most batches divide."""
    words = ("--data.test", "0120120", "--data.batch_size", batch, "--shots", "[1,5]", "--neighbours", "[1,15]")
    assert some(*words, "--out", "one").code == 0
    said = together("probe", "--ckpt_path", "net.ckpt", *SOME, *words, "--out", "two")
    assert "extracted 15 of 15 training images" in said and "extracted 7 of 7 test images" in said
    assert "deprecated" not in said
    assert scores(found("one")) == scores(found("two")) and found("two")["images"] == {"training": 15, "test": 7}
    from safetensors.torch import load_file

    files = [sorted(Path(folder, "features").iterdir()) for folder in ("one", "two")]
    assert [path.name for path in files[0]] == [path.name for path in files[1]]
    for one, two in zip(*files, strict=True):
        torch.testing.assert_close(load_file(one)["features"], load_file(two)["features"], atol=1e-5, rtol=1e-5)
        assert torch.equal(load_file(one)["labels"], load_file(two)["labels"])
    again = together("probe", "--ckpt_path", "net.ckpt", *SOME, *words, "--out", "two")
    assert "extracted" not in again


def test_a_run_gives_its_images_to_other_weights(app, tmp_path):
    for number in range(60):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    data = ("--data", "ImageFolder", "--data.root", "photos", "--data.image_size", 16, "--data.batch_size", 8)
    words = (*data, "--data.num_workers", 0, "--data.split_seed", 7, *CPU, "--trainer.max_steps", 1)
    for name in ("one", "two"):
        done = app("fit", *words, "--model.net.variant", "mu/8", "--name", name, "--seed_everything", ord(name[0]))
        assert done.code == 0, done.err
    done = app("probe", "runs/one/0", "--probes", "[knn]", "--neighbours", "[3]", *CPU)
    assert done.code == 0, done.err
    weights = Path("runs/two/0/checkpoints/last.ckpt")
    done = app("probe", "runs/one/0", "--model.weights", weights, "--probes", "[knn]", "--neighbours", "[3]", *CPU)
    assert done.code == 0, done.err
    own, other = (json.loads(Path(folder, "probe.json").read_text()) for folder in ("runs/one/0", "probe"))
    assert other["net"] == str(weights.resolve()) != own["net"] and other["net_digest"] != own["net_digest"]
    assert other["images"] == own["images"]
    assert f"probed   {weights}" in done.out and "wrote    probe/probe.csv, probe/probe.json" in done.out
    assert len(list(Path("runs/one/0/features").iterdir())) == len(list(Path("probe/features").iterdir())) == 2
    for verb in ("test", "predict"):
        done = app(verb, "runs/one/0", "--model.weights", weights)
        assert done.code == 1 and "both name a net; give one of them" in done.err.splitlines()[-1], done.err
