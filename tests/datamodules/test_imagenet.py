import io
import json
import tarfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from lightning.pytorch import Trainer
from PIL import Image
from pyarrow import parquet
from torch.nn.functional import one_hot

from datamodules.imagenet import V2, ImageNet1k
from datamodules.reading import synsets
from datamodules.reading.published import tfds_order
from datamodules.reading.shared_sequences import Ragged
from vit_lightning.augment import Augment
from vit_lightning.classifier import Classifier
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.testing import check_datamodule

TENCH, GOLDFISH, SHARK = "n01440764", "n01443537", "n01484850"  # classes 0, 1, 2
TRAIN = {f"{wnid}/{wnid}_{number}.JPEG" for wnid in (TENCH, GOLDFISH, SHARK) for number in range(1, 5)}
VAL = {1: "n01751748", 2: "n09193705", 3: "n02105855", 4: "n04263257"}  # the first lines of the official list


def picture(shade: int = 0, side: int = 8, kind: str = "JPEG") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), (shade, shade, shade)).save(buffer, kind)
    return buffer.getvalue()


def put(path: Path, data: bytes | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture() if data is None else data)


def val_name(number: int) -> str:
    return f"ILSVRC2012_val_{number:08d}.JPEG"


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture
def tree(tmp_path) -> Path:
    root = tmp_path / "imagenet"
    for name in TRAIN:
        put(root / "train" / name)
    for number, wnid in VAL.items():
        put(root / "val" / wnid / val_name(number), picture(number))
    return root


def imagenet(root: Path, **options) -> ImageNet1k:
    given = {
        "image_size": 8,
        "batch_size": 2,
        "num_workers": 0,
        "augment": Augment(crop="none"),
        "allow_incomplete": True,
        "cache": root.parent / "cache",
    }
    return ImageNet1k(root=root, **{**given, **options})


def ready(root: Path, stage: str = "fit", **options) -> ImageNet1k:
    data = imagenet(root, **options)
    data.prepare_data()
    data.setup(stage)
    return data


def shown(images) -> dict[str, int]:
    return dict(zip((key.rpartition("/")[2] for key in images.keys), images.labels.tolist(), strict=True))


EXPECTED = {val_name(number): synsets.wnids("1k").index(wnid) for number, wnid in VAL.items()}

pytestmark = pytest.mark.filterwarnings("ignore:.*classes have no training images")


def test_contract(tree):
    check_datamodule(imagenet(tree, val_fraction=0.2))


def test_classes_are_the_official_ones(tree):
    data = imagenet(tree)
    assert data.num_classes == len(data.class_names) == 1000
    assert data.class_names[:3] == [
        "tench, Tinca tinca",
        "goldfish, Carassius auratus",
        "great white shark, white shark, man-eater, man-eating shark, Carcharodon carcharias",
    ]


def test_folders(tree):
    with pytest.warns(UserWarning, match=r"997 classes have no training images, such as n01491361; they keep"):
        data = ready(tree, val_fraction=0.0)
    assert shown(data.train_set) == {name[10:]: [TENCH, GOLDFISH, SHARK].index(name[:9]) for name in TRAIN}
    assert data.val_set is data.test_set
    assert shown(data.val_set) == EXPECTED


def test_minival_is_the_end_of_the_training_images_in_tfds_order(tree):
    data = ready(tree, val_fraction=0.25)
    names = sorted(name[10:] for name in TRAIN)
    last = {names[place] for place in tfds_order("train", names)[-3:]}
    assert set(shown(data.val_set)) == last
    assert set(shown(data.train_set)) == set(names) - last
    assert shown(data.test_set) == EXPECTED


@pytest.mark.parametrize("form", ["flat", "tar", "parquet"])
def test_val_in_other_forms_has_the_same_labels(tree, form):
    pictures = {path.name: path.read_bytes() for path in sorted(tree.glob("val/*/*"))}
    for path in tree.glob("val/*/*"):
        path.unlink()
    for path in (*tree.glob("val/*"), tree / "val"):
        path.rmdir()
    if form == "flat":
        for name, data in pictures.items():
            put(tree / "val" / name, data)
    elif form == "tar":
        (tree / "ILSVRC2012_img_val.tar").write_bytes(tar_of(pictures))
    else:
        write_rows(tree / "data/validation-00000-of-00001.parquet", pictures, [EXPECTED[name] for name in pictures])
    data = ready(tree)
    assert shown(data.test_set) == EXPECTED
    images = torch.cat([images for images, _ in data.test_dataloader()])
    shades = dict(zip(shown(data.test_set), images[:, 0, 0, 0].tolist(), strict=True))
    assert shades == {val_name(number): pytest.approx(number, abs=1) for number in VAL}


def test_official_training_tar(tree, tmp_path):
    root = tmp_path / "tars"
    root.mkdir()
    classes = {
        f"{wnid}.tar": tar_of({f"{wnid}_{number}.JPEG": picture() for number in range(1, 5)})
        for wnid in (GOLDFISH, TENCH, SHARK)
    }
    (root / "ILSVRC2012_img_train.tar").write_bytes(tar_of(classes))
    packed, plain = ready(root, val_fraction=0.25), ready(tree, val_fraction=0.25)
    assert shown(packed.train_set) == shown(plain.train_set)
    assert shown(packed.val_set) == shown(plain.val_set)
    assert packed.test_set is None
    check_datamodule(imagenet(root, val_fraction=0.25))


def write_rows(path: Path, pictures: dict[str, bytes], labels: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"bytes": data, "path": name} for name, data in pictures.items()]
    parquet.write_table(pa.table({"image": rows, "label": labels}), path, row_group_size=3)


def test_hugging_face_parquet(tree, tmp_path):
    """Their names say the class a second time: n01440764_1_n01440764.JPEG, ILSVRC2012_val_00000001_n01751748.JPEG."""
    root = tmp_path / "hub"
    named = [(name[10:-5], name[:9]) for name in sorted(TRAIN)]
    wnids = [TENCH, GOLDFISH, SHARK]
    pictures = {f"{name}_{wnid}.JPEG": picture() for name, wnid in named}
    write_rows(root / "data/train-00000-of-00001.parquet", pictures, [wnids.index(wnid) for _, wnid in named])
    val = {f"{val_name(number)[:-5]}_{wnid}.JPEG": picture(number) for number, wnid in VAL.items()}
    write_rows(root / "data/validation-00000-of-00001.parquet", val, list(EXPECTED.values()))
    data, plain = ready(root, val_fraction=0.25), ready(tree, val_fraction=0.25)
    assert {name[: name.rindex("_n")] + ".JPEG": label for name, label in shown(data.val_set).items()} == shown(
        plain.val_set
    )
    assert list(shown(data.test_set).values()) == list(EXPECTED.values())
    check_datamodule(imagenet(root, val_fraction=0.25))
    write_rows(root / "data/validation-00000-of-00001.parquet", val, [0, 1, 2, 3])
    with pytest.raises(InputError, match=r"val_00000001_n01751748\.JPEG has the label of another class"):
        ready(root)
    write_rows(root / "data/train-00000-of-00001.parquet", pictures, [2 - wnids.index(wnid) for _, wnid in named])
    write_rows(root / "data/validation-00000-of-00001.parquet", val, list(EXPECTED.values()))
    with pytest.raises(InputError, match=r"n01440764_1_n01440764\.JPEG has label 2, but n01440764 is class 0"):
        ready(root)


@pytest.mark.parametrize(
    ("called", "said"),
    [
        ("words", ""),
        ("ids", ""),
        ("words reversed", "calls label 0 'toilet .*', which is class 999 of .* where class 0 is 'tench, Tinca tinca'"),
        ("ids reversed", "calls label 0 'n15075141', which is class 999 of ImageNet-1k"),
        (["bonnet", "hen", "tench"], "calls label 0 'bonnet', which is class 452 of ImageNet-1k"),
        (["Tench", "goldfish", "a fish that nobody knows"], ""),
        ("one name of two classes", ""),
        (None, ""),
    ],
)
def test_names_in_parquets_metadata_are_held_against_the_order(tree, called, said):
    ids = synsets.wnids("1k")
    names = {
        "words": list(map(synsets.words, ids)),
        "ids": list(ids),
        "words reversed": list(map(synsets.words, ids[::-1])),
        "ids reversed": list(ids[::-1]),
        "one name of two classes": [
            "sunglasses" if number == 836 else synsets.words(wnid) for number, wnid in enumerate(ids)
        ],
    }.get(str(called), called)
    info = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    rows = [{"bytes": picture(), "path": f"{number}.JPEG"} for number in range(6)]
    table = pa.table({"image": rows, "label": [0, 1, 2] * 2}).replace_schema_metadata({"huggingface": json.dumps(info)})
    root = tree / "named"
    root.mkdir()
    parquet.write_table(table, root / "train-0.parquet")
    with pytest.raises(InputError, match=said) if said else nullcontext():
        ready(root, val_fraction=0.5)


def test_moved_files_are_found_by_their_names(tree):
    (tree / f"train/{TENCH}/{TENCH}_1.JPEG").rename(tree / f"train/{SHARK}/{TENCH}_1.JPEG")
    with pytest.raises(
        InputError, match=rf"train/{SHARK}/{TENCH}_1\.JPEG lies in the wrong folder; move it to {TENCH}"
    ):
        ready(tree)
    (tree / f"val/{VAL[1]}/{val_name(1)}").rename(tree / f"val/{VAL[2]}/{val_name(1)}")
    with pytest.raises(InputError, match=rf"{val_name(1)} has the label of another class; it belongs to {VAL[1]}"):
        ready(tree, stage="test", reindex=True)


def test_case_c8_one_mapping_for_all_splits(tree):
    put(tree / "train/.ipynb_checkpoints/a.JPEG")
    (tree / "train" / VAL[4]).mkdir()
    put(tree / f"train/{VAL[1]}/{VAL[1]}_1.JPEG")
    with pytest.warns(UserWarning, match="996 classes have no training images"):
        data = ready(tree, val_fraction=0.0)
    assert shown(data.train_set)[f"{VAL[1]}_1.JPEG"] == shown(data.val_set)[val_name(1)] == EXPECTED[val_name(1)]
    assert not any("ipynb" in key for key in data.train_set.keys)
    put(tree / "val/360/a.JPEG")
    with pytest.raises(InputError, match=r"val/360/a\.JPEG lies in no folder named after one of the 1,000 classes"):
        ready(tree, reindex=True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "train/n99999999/a.JPEG",
            r"train/n99999999/a\.JPEG lies in no folder named after one of the 1,000 classes \(1",
        ),
        ("train/a.JPEG", r"train/a\.JPEG lies in no folder"),
        ("val/a.JPEG", r"val/a\.JPEG lies in no folder .* and is not named ILSVRC2012_val_<number>"),
        (f"val/{val_name(50_001)}", r"val_00050001\.JPEG lies in no folder"),
        (f"val/{val_name(0)}", r"val_00000000\.JPEG lies in no folder"),
    ],
)
def test_strange_files_are_named(tree, path, message):
    put(tree / path)
    with pytest.raises(InputError, match=message):
        ready(tree)


def test_changes_between_runs_are_refused_and_labels_stay(tree):
    ready(tree)
    (tree / f"train/{TENCH}/{TENCH}_2.JPEG").rename(tree / f"train/{TENCH}/{TENCH}_9.JPEG")
    with pytest.raises(InputError, match=rf"train/{TENCH} has changed since it was indexed; give --data\.reindex true"):
        ready(tree)
    assert shown(ready(tree, reindex=True, val_fraction=0.0).train_set)[f"{TENCH}_9.JPEG"] == 0
    path = tree / f"val/{VAL[3]}/{val_name(3)}"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BrokenImage, match=rf"test image {VAL[3]}/{val_name(3)}: .+"):
        list(ready(tree).test_dataloader())


@pytest.mark.parametrize("stage", ["test", "predict"])
def test_what_is_wrong_with_training_images_ends_no_scoring(tree, stage):
    put(tree / "train" / TENCH / f"{GOLDFISH}_9.JPEG")
    assert shown(ready(tree, stage).predict_set) == EXPECTED
    with pytest.raises(InputError, match=f"lies in the wrong folder; move it to {GOLDFISH}"):
        ready(tree, "validate")


def test_incomplete_splits_are_refused(tree):
    with pytest.raises(InputError, match=r"val has 4 val images where 50,000 were published; .*allow_incomplete true"):
        ready(tree, allow_incomplete=False)


def test_without_training_images(tree, tmp_path):
    for path in sorted(tree.glob("train/**/*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (tree / "train").rmdir()
    assert shown(ready(tree, "validate").val_set) == EXPECTED
    assert shown(ready(tree, "test").test_set) == EXPECTED
    with pytest.raises(InputError, match=r"imagenet holds no training images of ImageNet-1k: expected train/<wnid>"):
        ready(tree)
    with pytest.raises(InputError, match=r"--data\.root \S*nowhere: no such folder"):
        ready(tmp_path / "nowhere", "validate")


REAL = [[1], [], [2, 3], [0]]


def real(monkeypatch, rows) -> None:
    labels = synsets.validation().labels
    monkeypatch.setattr(synsets, "validation", lambda: synsets.Validation(labels, Ragged.of(rows)))


@pytest.mark.parametrize("layout", ["folders", "flat", "flat in another order"])
def test_case_c9(tree, monkeypatch, caplog, layout):
    """Predictions 1, 5, 3, 2 for images 1 to 4: two of the three that have a ReaL label are right."""
    real(monkeypatch, REAL)
    if layout != "folders":
        for path in tree.glob("val/*/*"):
            # Another folder in front changes the order but not the names.
            path.rename(tree / "val" / path.name)
        for folder in tree.glob("val/n*"):
            folder.rmdir()
    with caplog.at_level("INFO"):
        data = ready(tree, "test", test="real")
    assert "ReaL: n = 3 images; 1 without a ReaL label are left out" in caplog.text
    predictions = {val_name(1): 1, val_name(2): 5, val_name(3): 3, val_name(4): 2}
    order = range(len(data.test_set))
    if layout == "flat in another order":
        order = reversed(order)
    hits = [data.test_set[place][1][predictions[Path(data.test_set.keys[place]).name]].item() for place in order]
    assert len(hits) == 3
    assert np.mean(hits) == pytest.approx(2 / 3)
    labels = torch.cat([labels for _, labels in data.test_dataloader()])
    assert sorted(map(tuple, labels.nonzero().tolist()))[0] in {(0, 0), (0, 1), (0, 2)}
    assert labels.sum(1).tolist() == [data.test_set[place][1].sum() for place in range(3)]


def test_case_c9_scored_by_the_model(tree, monkeypatch):
    """The shade of an image is its number: a stand-in for the net then predicts 1, 5, 3, 2."""
    real(monkeypatch, REAL)
    predictions = torch.tensor([0, 1, 5, 3, 2])
    monkeypatch.setattr(
        Classifier, "forward", lambda self, images: one_hot(predictions[images[:, 0, 0, 0].long()], 1000).float()
    )
    model = Classifier(NetConfig("Ti/4", width=8, depth=1, heads=1), num_classes=1000, image_size=8)
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    (scores,) = Trainer(accelerator="cpu", **quiet).test(model, imagenet(tree, test="real"), verbose=False)
    assert scores["test/top1"] == pytest.approx(2 / 3)
    # The same in one pass with the labels that the images were published with, none of which is 1, 5, 3 or 2.
    both = imagenet(tree, also=("real",), val_fraction=0)
    seen = Trainer(accelerator="cpu", **quiet).validate(model, both, verbose=False)
    scores = {name: value for scores in seen for name, value in scores.items()}
    by_class = {"val/mean_class_accuracy", "val/macro_f1", "val/ece"}
    assert scores.keys() == {"val/loss", "val/top1", "val/top5", "val/real", *by_class}
    assert (scores["val/top1"], scores["val/real"]) == (0, pytest.approx(2 / 3))


def test_further_sets_are_scored_through_the_cli(tree, monkeypatch, app):
    real(monkeypatch, REAL)
    for folder in range(3):
        put(tree / V2 / str(folder) / "a.jpeg", picture(folder))
    words = ("--data", "ImageNet1k", "--data.root", tree, "--data.cache", tree.parent / "cache", "--data.image_size", 8)
    words += ("--data.allow_incomplete", "true", "--data.val_fraction", 0, "--data.also", "[real,v2]")
    words += ("--data.num_workers", 0, "--data.batch_size", 2, "--data.on_error", "skip")
    net = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.logger", "false")
    done = app("fit", *net, *words, "--trainer.max_steps", 2, "--trainer.limit_train_batches", 2)
    assert done.code == 0, done.err
    done = app("test", *words, "--trainer.accelerator", "cpu", "--ckpt_path", "last")
    assert done.code == 0, done.err
    first = [line.split("  ")[0].strip() for line in done.out.splitlines() if "%" in line]
    assert first == ["test", "ReaL labels", "ImageNet-V2"] and "top-1" in done.out
    masked = ("--model", "vit_lightning.masked_patch.MaskedPatch", *net)
    done = app("fit", *masked, *words, "--trainer.max_steps", 1, "--data.image_size", 16)
    assert "error: MaskedPatch scores no further sets such as real" in done.err
    done = app("fit", *net, *words[:-6], "--data.also", "[imagined]")
    assert "--data.also" in done.err and "imagined" in done.err


def test_contract_with_further_sets(tree, monkeypatch):
    real(monkeypatch, REAL)
    check_datamodule(imagenet(tree, also=("real",), val_fraction=0.2))


def test_case_c9_without_any_label(tree, monkeypatch):
    real(monkeypatch, [[], [], [], []])
    with pytest.raises(InputError, match=r"ReaL: n = 0, since none of the 4 validation images has a ReaL label"):
        ready(tree, "test", test="real")


def test_real_labels_are_found_by_number(tree):
    """The real lists: images 2 and 3 show [970, 795] and [230, 231], image 1 nothing."""
    data = ready(tree, "test", test="real")
    found = {Path(key).name: data.test_set[place][1] for place, key in enumerate(data.test_set.keys)}
    assert {name: label.nonzero().flatten().tolist() for name, label in found.items()} == {
        val_name(2): [795, 970],
        val_name(3): [230, 231],
        val_name(4): [809],
    }
    check_datamodule(imagenet(tree, test="real", val_fraction=0.2))
    put(tree / f"val/{TENCH}/renamed.JPEG")
    with pytest.raises(InputError, match=r"renamed\.JPEG is not named ILSVRC2012_val_<number>"):
        ready(tree, "test", test="real", reindex=True)


def test_imagenet_v2_folders_are_numbers(tree):
    for label in (0, 1, 2, 10, 100, 999):
        put(tree / V2 / f"{label}/picture.jpeg")
    found = ready(tree, test="v2").test_set
    assert [found[place][1] for place in range(6)] == [int(key.split("/")[0]) for key in found.keys]
    assert sorted(found.labels.tolist()) == [0, 1, 2, 10, 100, 999]
    check_datamodule(imagenet(tree, test="v2", val_fraction=0.2))


def objectnet(root: Path) -> None:
    """Two objects that ImageNet has, one with two classes, and one that it lacks; numbers in another order."""
    for folder in ("alarm_clock", "banana", "candle"):
        image = Image.new("RGB", (12, 14), (255, 0, 0))
        image.paste((0, 0, 255), (2, 2, 10, 12))
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        put(root / f"objectnet-1.0/images/{folder}/a.png", buffer.getvalue())
    put(root / "objectnet-1.0/README.md", b"")
    facts = {
        "folder_to_objectnet_label.json": {"alarm_clock": "Alarm clock", "banana": "Banana", "candle": "Candle"},
        "objectnet_to_imagenet_1k.json": {"Alarm clock": "analog clock; digital clock", "Banana": "banana"},
        "pytorch_to_imagenet_2012_id.json": {"409": 2, "530": 0, "954": 1},
    }
    for name, content in facts.items():
        put(root / "objectnet-1.0/mappings" / name, json.dumps(content).encode())
    put(root / "objectnet-1.0/mappings/imagenet_to_label_2012_v2", b"digital clock\nbanana\nanalog clock\n")


def test_objectnet(tree):
    objectnet(tree)
    data = ready(tree, test="objectnet")
    assert list(data.test_set.keys) == ["alarm_clock/a.png", "banana/a.png"]
    assert [data.test_set[place][1].nonzero().flatten().tolist() for place in range(2)] == [[409, 530], [954]]
    image, _ = data.test_set[0]
    assert image.shape == (3, 10, 8)
    assert (image == torch.tensor([0, 0, 255])[:, None, None]).all()  # the red frame is gone
    check_datamodule(imagenet(tree, test="objectnet", val_fraction=0.2))
    (tree / "objectnet-1.0/mappings/imagenet_to_label_2012_v2").unlink()
    with pytest.raises(InputError, match=r"imagenet_to_label_2012_v2 is missing .*; it comes with ObjectNet"):
        ready(tree, test="objectnet")


@pytest.mark.parametrize(("test", "folder"), [("v2", V2), ("objectnet", "objectnet-1.0/images")])
def test_missing_test_sets_are_named(tree, test, folder):
    with pytest.raises(InputError, match=rf"imagenet/{folder} is missing: unpack the set there"):
        ready(tree, test=test)


def test_kits_images(kit, tmp_path):
    """Two hundred real ImageNet images, in the folders of their classes."""
    lines = (kit / "imagenet-sample/index.csv").read_text().splitlines()[1:]
    expected = {}
    for number, (file, wnid, label, *_) in enumerate(line.split(",") for line in lines):
        target = tmp_path / f"imagenet/train/{wnid}/{wnid}_{number}.JPEG"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(kit / "imagenet-sample/images" / file)
        expected[target.name] = int(label)
    data = ready(tmp_path / "imagenet", val_fraction=0.0)
    assert shown(data.train_set) == expected
    images, _ = next(iter(data.train_dataloader()))
    assert images.shape == (2, 3, 8, 8)


def test_objectnets_lists_must_be_regular_files(tree):
    objectnet(tree)
    for file in (tree / "objectnet-1.0/mappings").iterdir():
        file.rename(tree / "away")
        file.symlink_to("/dev/null")
        with pytest.raises(InputError, match=rf"{file.name}: it is a device, not a regular file"):
            ready(tree, test="objectnet")
        file.unlink()
        (tree / "away").rename(file)
