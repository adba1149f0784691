"""predict: equal answers from every form of a net, labels, and files in every form."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from lightning.pytorch import Callback
from PIL import Image

from vit_lightning.classifier import Classifier
from vit_lightning.models import NetConfig

CPU = ("--trainer.accelerator", "cpu", "--data.num_workers", 0)
CLASSES = ["bird", "car", "cat"]
LABELS = ([0, 2], [], [1])


class Stop(Callback):
    """Ends the run as a kill would, after two batches."""

    def on_predict_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        if batch_idx == 2:
            raise RuntimeError("killed")


def save(model: Classifier, path: Path, names: list[str]) -> Path:
    """A checkpoint of a net whose head tells images apart."""
    torch.manual_seed(0)
    model.configure_model()
    if model.net.num_classes:
        torch.nn.init.normal_(model.net.head.weight, std=0.1)
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0"}
    names_and_model = {"class_names": names, "model": "vit_lightning.classifier.Classifier"}
    torch.save({"state_dict": model.state_dict()} | facts | names_and_model, path)
    return path


def picture(path: Path, number: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def labelled(app, tmp_path):
    """Seven images in folders of three classes, and a net for these."""
    for number in range(7):
        picture(tmp_path / "set/test" / CLASSES[number % 3] / f"{number}.png", number)
        picture(tmp_path / "set/train" / CLASSES[number % 3] / f"{number}.png", number)
    save(Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8), tmp_path / "net.ckpt", CLASSES)
    return app


SET = ("net.ckpt", "--data", "ImageFolder", "--data.root", "set", "--data.image_size", 8, "--data.batch_size", 2, *CPU)


def lines(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def read(path: str) -> list[dict]:
    return lines(path) if path.endswith(".jsonl") else parquet.read_table(path).to_pylist()


def test_labels_and_all_probabilities_are_equal_in_every_form(labelled):
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        done = labelled("predict", *SET, "--top", "all", "--out", name)
        assert done.code == 0, done.err
        assert f"wrote    {name}: 7 images" in done.out and done.out.count(" %") == 7
    table, found = parquet.read_table("a.parquet").to_pylist(), lines("a.jsonl")
    assert [row["label"] for row in found] == [*["bird"] * 3, *["car"] * 2, *["cat"] * 2]
    for row, spelled, one in zip(table, rows("a.csv"), found, strict=True):
        assert list(spelled) == ["image", "label", *(f"probability:{name}" for name in CLASSES), "error"]
        assert list(one["probabilities"]) == CLASSES and abs(sum(one["probabilities"].values()) - 1) < 1e-6
        assert row["image"] == spelled["image"] == one["image"] and row["label"] == spelled["label"] == one["label"]
        for name, share in one["probabilities"].items():
            assert row[f"probability:{name}"] == pytest.approx(share, abs=1e-7)
            assert float(spelled[f"probability:{name}"]) == pytest.approx(share, rel=1e-6)
        assert row["error"] is None and one["error"] is None and spelled["error"] == ""


def test_the_best_k_come_best_first(labelled):
    for name in ("b.csv", "b.jsonl", "b.parquet"):
        assert labelled("predict", *SET, "--top", 2, "--out", name).code == 0
    assert labelled("predict", *SET, "--top", "all", "--out", "a.jsonl").code == 0
    for whole, spelled, one, row in zip(
        lines("a.jsonl"), rows("b.csv"), lines("b.jsonl"), parquet.read_table("b.parquet").to_pylist(), strict=True
    ):
        best = sorted(whole["probabilities"].items(), key=lambda pair: -pair[1])[:2]
        assert list(one["probabilities"].items()) == best
        assert [spelled["class1"], spelled["class2"]] == [row["class1"], row["class2"]] == [name for name, _ in best]
        assert row["probability2"] == pytest.approx(best[1][1], abs=1e-7)


def test_several_labels_are_a_list(app, tmp_path):
    for split in ("train", "test"):
        for number, labels in enumerate(LABELS):
            picture(tmp_path / f"{split}{number}.png", number)
            names = [CLASSES[label] for label in labels]
            with (tmp_path / f"{split}.jsonl").open("a") as file:
                file.write(json.dumps({"path": f"{split}{number}.png", "labels": names}) + "\n")
    (tmp_path / "names.txt").write_text("\n".join(CLASSES))
    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8, loss="sigmoid")
    save(model, tmp_path / "net.ckpt", CLASSES)
    words = ("net.ckpt", "--data", "Manifest", "--data.train", "train.jsonl", "--data.test", "test.jsonl")
    words += (
        "--data.root",
        ".",
        "--data.multi_label",
        "true",
        "--data.class_map",
        "names.txt",
        "--data.image_size",
        8,
        *CPU,
    )
    for name in ("m.jsonl", "m.csv", "m.parquet"):
        done = app("predict", *words, "--out", name)
        assert done.code == 0, done.err
    expected = [[CLASSES[label] for label in labels] for labels in LABELS]
    assert [row["label"] for row in lines("m.jsonl")] == expected
    assert [row["label"] for row in rows("m.csv")] == [" | ".join(names) for names in expected]
    assert parquet.read_table("m.parquet")["label"].to_pylist() == expected


def test_a_stop_keeps_rows_and_features_in_every_form(labelled, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    for out, features in (("whole.jsonl", "whole.npz"), ("whole.parquet", "whole.parquet.npz")):
        assert labelled("predict", *SET, "--out", out, "--features", features).code == 0
        again = out.replace("whole", "again"), features.replace("whole", "again")
        words = ("predict", *SET, "--out", again[0], "--features", again[1])
        with pytest.raises(RuntimeError, match="killed"):
            labelled(*words, "--trainer.callbacks+=tests.commands.test_predict.Stop")
        assert not Path(again[0]).exists() and not Path(again[1]).exists()
        (part,) = Path().glob("again.*.part.jsonl")
        assert len(lines(part)) == 2
        part.write_text(part.read_text()[:-3])  # a row that a kill has cut
        done = labelled(*words)
        assert done.code == 0 and "goes on after the 1 image" in done.err, done.err
        for whole, row in zip(read(out), read(again[0]), strict=True):  # other batches round otherwise
            assert row["image"] == whole["image"] and row["label"] == whole["label"]
            for name in ("probabilities", "probability1"):
                assert row.get(name) == pytest.approx(whole.get(name), abs=1e-6)
        one, other = np.load(features), np.load(again[1])
        assert (one["keys"] == other["keys"]).all() and np.allclose(one["features"], other["features"], atol=1e-6)
        assert not list(Path().glob("*.part*"))


def test_features_are_what_the_head_reads_with_a_key_each(labelled):
    for name in ("f.npz", "f.parquet"):
        assert labelled("predict", *SET, "--features", name, "--top", "all", "--out", f"{name}.jsonl").code == 0
    found, table = np.load("f.npz"), parquet.read_table("f.parquet")
    head = torch.load("net.ckpt", weights_only=True)["state_dict"]
    logits = torch.from_numpy(found["features"]) @ head["net.head.weight"].T + head["net.head.bias"]
    shares = [list(row["probabilities"].values()) for row in lines("f.npz.jsonl")]
    assert torch.allclose(logits.softmax(-1), torch.tensor(shares), atol=1e-5)
    assert found["keys"].tolist() == table["key"].to_pylist() == [row["image"] for row in lines("f.npz.jsonl")]
    assert np.allclose(found["features"], np.array(table["features"].to_pylist()), atol=1e-6)


def test_an_image_that_cannot_be_read_has_a_reason_and_no_features(app, tmp_path):
    save(Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8), tmp_path / "net.ckpt", CLASSES)
    picture(tmp_path / "photos/a.png", 0)
    (tmp_path / "photos/b.png").write_bytes(b"none")
    for name in ("x.jsonl", "x.parquet"):
        done = app("predict", "net.ckpt", "photos", *CPU, "--out", name, "--features", f"{name}.npz")
        assert done.code == 0, done.err
    good, bad = lines("x.jsonl")
    assert good["error"] is None and bad["probabilities"] is None and "not an image" in bad["error"]
    assert "label" not in good
    assert parquet.read_table("x.parquet").to_pylist()[1]["class1"] is None
    features = np.load("x.jsonl.npz")["features"]
    assert np.isfinite(features[0]).all() and np.isnan(features[1]).all()


def test_names_of_any_bytes_reach_every_form(app, tmp_path):
    save(Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8), tmp_path / "net.ckpt", CLASSES)
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(os.fsdecode(os.fsencode(tmp_path / "photos") + b"/\xff\n.png"), "PNG")
    for name in ("x.jsonl", "x.parquet"):
        done = app("predict", "net.ckpt", "photos", *CPU, "--out", name, "--features", f"f.{name}"[:-6] + ".npz")
        assert done.code == 0, done.err
        Path("f.x.npz").unlink(missing_ok=True)
    assert lines("x.jsonl")[0]["image"] == "photos/\udcff\n.png"
    assert parquet.read_table("x.parquet")["image"].to_pylist() == ["photos/\\xff\n.png"]


WRONG = {
    "--out x.txt": "--out x.txt ends in none of .csv, .jsonl, .parquet",
    "--features x.csv": "--features x.csv ends in neither .npz nor .parquet",
    "--top 0": "--top is 0, expected 1 or more, or all",
    "--top best": "--top",
    "--out there.csv": "--out there.csv exists already",
    "--features there.npz": "--features there.npz exists already",
    "--out no/x.csv": "there is no folder no",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_flag_is_a_sentence_and_leaves_nothing(labelled, words):
    Path("there.csv").write_text("mine")
    Path("there.npz").write_text("mine")
    before = sorted(Path().rglob("*"))
    done = labelled("predict", *SET, *words.split())
    assert done.code == 1 and WRONG[words] in done.err, done.err
    assert sorted(Path().rglob("*")) == before and Path("there.csv").read_text() == "mine"


def test_a_library_that_is_missing_is_one_line(labelled, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    done = labelled("predict", *SET, "--out", "x.parquet")
    assert done.code == 1 and done.err.splitlines()[-1].startswith("error: --out x.parquet needs pyarrow: pip install")


# The same net in every form ------------------------------------------------------------


@pytest.fixture(scope="module")
def forms(kit, tmp_path_factory):
    """The kit's ViT-S/14 with a head of 7 classes: as checkpoint, timm, Hugging Face, safetensors and ONNX."""
    from vit_lightning.commands.convert import convert
    from vit_lightning.commands.export import export

    place = tmp_path_factory.mktemp("forms")
    weights = str(kit / "weights/vits14_dinov2_layout.fp16.safetensors")
    model = Classifier(NetConfig(), weights=weights, weights_head="reset", num_classes=7, image_size=112)
    checkpoint = str(save(model, place / "net.ckpt", [f"kind {number}" for number in range(7)]))
    for layout in ("timm", "huggingface"):
        convert(checkpoint, place / layout, layout)
    for form in ("safetensors", "onnx"):
        export(checkpoint, place / form, form)
    return place


@pytest.mark.parametrize(
    "form", ["timm", "huggingface", "safetensors", "onnx", "onnx/model.onnx", "timm/model.safetensors"]
)
def test_every_form_gives_the_answers_of_the_checkpoint(app, kit, forms, form):
    photos = sorted((kit / "imagenet-sample/images").iterdir())[:50]
    answers = {source: forms / f"{source.replace('/', ' ')}.jsonl" for source in ("net.ckpt", form)}
    for source, out in answers.items():
        if not out.exists():  # those of the checkpoint are the same for all forms
            done = app("predict", forms / source, *photos, *CPU, "--top", "all", "--out", out)
            assert done.code == 0, done.err
    expected, found = (lines(str(out)) for out in answers.values())
    assert [row["image"] for row in found] == [str(photo) for photo in photos]
    assert len({row["probabilities"]["kind 3"] for row in found}) == 50
    for one, other in zip(expected, found, strict=True):
        assert other["probabilities"] == pytest.approx(one["probabilities"], abs=1e-5)


def test_weights_without_a_head_give_features_alone(app, kit):
    words = ("predict", kit / "weights/vits14_dinov2_layout.fp16.safetensors", kit / "imagenet-sample/images", *CPU)
    words = (*words, "--data.image_size", 28)
    done = app(*words)
    assert done.code == 1 and "the net has no classes; give --features FILE" in done.err
    done = app(*words, "--features", "f.npz")
    assert done.code == 0, done.err
    assert np.load("f.npz")["features"].shape == (200, 384) and not Path("predictions.csv").exists()


def test_a_loss_of_several_labels_follows_the_weights(app, tmp_path):
    from vit_lightning.commands.export import export

    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8, loss="sigmoid")
    save(model, tmp_path / "net.ckpt", CLASSES)
    for form in ("safetensors", "onnx"):
        export("net.ckpt", tmp_path / form, form)
    picture(tmp_path / "a.png", 0)
    found = {}
    for source in ("net.ckpt", "safetensors", "onnx"):
        assert app("predict", source, "a.png", *CPU, "--out", f"{source}.jsonl", "--top", "all").code == 0
        found[source] = lines(f"{source}.jsonl")[0]["probabilities"]
    assert sum(found["net.ckpt"].values()) != pytest.approx(1)
    assert found["safetensors"] == pytest.approx(found["net.ckpt"], abs=1e-6)
    assert found["onnx"] == pytest.approx(found["net.ckpt"], abs=1e-5)


def test_a_program_brings_images_to_size_as_its_run_did(app, tmp_path):
    for number in range(12):
        picture(tmp_path / "photos" / CLASSES[number % 3] / f"{number}.png", number)
    words = ("--data", "ImageFolder", "--data.root", "photos", "--data.image_size", 8, "--data.batch_size", 2, *CPU)
    seen = ("--data.augment.evaluation", "center", "--data.augment.zoom", 1.5)
    done = app("fit", *words, *seen, "--model.net.variant", "mu/8", "--trainer.max_epochs", 1)
    assert done.code == 0, done.err
    assert app("export", "runs/default/0/checkpoints/last.ckpt", "onnx").code == 0
    for source, out in (("runs/default/0/checkpoints/last.ckpt", "a.jsonl"), ("onnx", "b.jsonl")):
        done = app("predict", source, "photos/cat", *CPU, "--out", out, "--top", "all")
        assert done.code == 0, done.err
    for one, other in zip(lines("a.jsonl"), lines("b.jsonl"), strict=True):
        assert other["probabilities"] == pytest.approx(one["probabilities"], abs=1e-5)


def test_a_class_map_names_classes_that_the_weights_do_not(app, tmp_path):
    from vit_lightning.commands.export import export

    save(Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8), tmp_path / "net.ckpt", [])
    export("net.ckpt", tmp_path / "bare", "safetensors")
    picture(tmp_path / "a.png", 0)
    (tmp_path / "names.txt").write_text("\n".join(CLASSES))
    words = ("predict", "bare", "a.png", *CPU, "--top", "all")
    assert app(*words, "--out", "bare.jsonl").code == 0
    assert app(*words, "--out", "named.jsonl", "--data.class_map", "names.txt").code == 0
    (bare,), (named,) = lines("bare.jsonl"), lines("named.jsonl")
    assert list(bare["probabilities"]) == ["0", "1", "2"] and "label" not in named
    assert named["probabilities"] == dict(zip(CLASSES, bare["probabilities"].values(), strict=True))
    (tmp_path / "names.txt").write_text("bird\ncar")
    done = app(*words, "--out", "x.jsonl", "--data.class_map", "names.txt")
    assert done.code == 1 and "the data has 2 class_names, the net 3 outputs" in done.err


WRONG_NETS = {
    ("predict", "no.onnx", "a.png"): "no.onnx: no such file",
    ("predict", "cut.onnx", "a.png"): "cut.onnx cannot be read as an ONNX program",
    ("test", "cut.onnx"): "an ONNX program only predicts",
    ("predict", "no.safetensors", "a.png"): "There are no weights at 'no.safetensors'",
    ("predict", "cut.npz", "a.png", "--ckpt_path", "last"): "cut.npz and --ckpt_path last both name a net",
    ("predict", "cut.npz", "a.png"): "cut.npz cannot be read",
}


@pytest.mark.parametrize("words", WRONG_NETS, ids=" ".join)
def test_what_is_no_net_is_a_sentence(app, tmp_path, words):
    picture(tmp_path / "a.png", 0)
    for name in ("cut.onnx", "cut.npz"):
        (tmp_path / name).write_bytes(b"PK none")
    done = app(*words, *CPU)
    assert done.code == 1 and WRONG_NETS[words] in done.err, done.err
    assert not list(tmp_path.glob("*.part*"))


def test_without_onnxruntime_one_line_says_how_to_get_it(app, tmp_path, monkeypatch):
    (tmp_path / "x.onnx").write_bytes(b"x")
    picture(tmp_path / "a.png", 0)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    done = app("predict", "x.onnx", "a.png", *CPU)
    assert done.code == 1 and done.err.strip().endswith("pip install 'vit-lightning[onnx]'")


def test_an_onnx_program_of_others_is_refused(app, tmp_path):
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Identity", ["images"], ["logits"])
    images, logits = (onnx.helper.make_tensor_value_info(name, 1, ["b", 3]) for name in ("images", "logits"))
    graph = onnx.helper.make_graph([node], "x", [images], [logits])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), "x.onnx")
    picture(tmp_path / "a.png", 0)
    done = app("predict", "x.onnx", "a.png", *CPU)
    assert done.code == 1 and "x.onnx does not say what it takes and gives" in done.err


def test_an_onnx_program_is_held_against_the_data(labelled, tmp_path):
    from vit_lightning.commands.export import export

    export("net.ckpt", tmp_path / "onnx", "onnx")
    words = ("onnx", *SET[1:])
    assert labelled("predict", *SET, "--out", "a.jsonl", "--top", "all").code == 0
    done = labelled("predict", *words, "--out", "b.jsonl", "--top", "all")
    assert done.code == 0, done.err
    for one, other in zip(lines("a.jsonl"), lines("b.jsonl"), strict=True):
        assert (one["image"], one["label"]) == (other["image"], other["label"])
        assert other["probabilities"] == pytest.approx(one["probabilities"], abs=1e-5)
    done = labelled("predict", *words, "--data.image_size", 16)
    assert done.code == 1 and "onnx/model.onnx takes images of 8 x 8" in done.err
    (tmp_path / "set/train/bird").rename(tmp_path / "set/train/zebra")
    (tmp_path / "set/test/bird").rename(tmp_path / "set/test/zebra")
    done = labelled("predict", *words)
    assert done.code == 1 and "the data has other classes than onnx/model.onnx" in done.err


def test_a_head_of_zeros_predicts_nothing(app, tmp_path):
    from vit_lightning.commands.convert import convert

    model = Classifier(net={"variant": "mu/8"}, num_classes=3, image_size=8)
    save(model, tmp_path / "net.ckpt", CLASSES)
    checkpoint = torch.load("net.ckpt", weights_only=True)
    checkpoint["state_dict"]["net.head.weight"].zero_()
    torch.save(checkpoint, "net.ckpt")
    convert("net.ckpt", tmp_path / "net.npz", "npz")
    picture(tmp_path / "a.png", 0)
    done = app("predict", "net.npz", "a.png", *CPU)
    assert done.code == 1 and "the head of net.npz is all zeros" in done.err
    done = app("predict", "net.npz", "a.png", *CPU, "--features", "f.npz")
    assert done.code == 0 and np.load("f.npz")["features"].shape[0] == 1, done.err
    assert not list(Path().glob("predictions*"))


def test_features_of_some_batches_have_as_many_keys(labelled):
    done = labelled("predict", *SET, "--features", "f.npz", "--trainer.limit_predict_batches", 2)
    assert done.code == 0, done.err
    found = np.load("f.npz")
    assert found["features"].shape[0] == len(found["keys"]) == 4
