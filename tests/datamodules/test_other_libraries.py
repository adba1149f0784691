"""Sets that other libraries write, compared row by row with what the same library reads."""

import io
import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet
from torchvision.datasets import ImageFolder as TorchvisionFolder

from datamodules.folder import ImageFolder
from datamodules.manifest import Manifest
from datamodules.parquet import Parquet
from vit_lightning.augment import Augment
from vit_lightning.data import images
from vit_lightning.errors import InputError

RANDOM = np.random.default_rng(0)
NAMES = ["zebra", "ant", "Owl", "No 10", "No 9"]
SPLITS = {"train": "train_set", "validation": "val_set", "test": "test_set"}


@pytest.fixture
def hub(monkeypatch):
    """Hugging Face's datasets, which ask nobody."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("datasets")


def pictures(count: int) -> list[Image.Image]:
    return [Image.fromarray(RANDOM.integers(0, 256, (6, 5, 3), dtype=np.uint8)) for _ in range(count)]


def png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def options(**further) -> dict:
    return {"image_size": 8, "num_workers": 0, "augment": Augment(crop="none"), **further}


def check(data, read: dict[str, list[tuple[np.ndarray, set[str]]]]) -> None:
    """Compare every label's name and every pixel of each split."""
    data.prepare_data()
    data.setup("fit")
    for split, rows in read.items():
        ours = getattr(data, SPLITS[split])
        assert len(ours) == len(rows)
        for index, (pixels, names) in enumerate(rows):
            image, label = ours[index]
            assert np.array_equal(images.load(image, name="").permute(1, 2, 0).numpy(), pixels)
            numbers = [label] if isinstance(label, int) else label.nonzero().flatten().tolist()
            assert {data.class_names[number] for number in numbers} == names


def make(hub, split: str, several: bool, count: int = 7):
    """A split whose list of classes has its own order."""
    order = [str(name) for name in np.random.default_rng(len(split)).permutation(NAMES)]
    kind = hub.ClassLabel(names=order)
    labels = [[row % 5, 4] if several else row % 5 for row in range(count)]
    features = hub.Features({"image": hub.Image(), "label": hub.List(kind) if several else kind})
    return hub.Dataset.from_dict({"image": pictures(count), "label": labels}, features=features)


def rows_of(dataset, several: bool = False) -> list[tuple[np.ndarray, set[str]]]:
    kind = dataset.features["label"]
    kind = kind.feature if several else kind
    return [
        (np.asarray(row["image"]), {kind.int2str(label) for label in (row["label"] if several else [row["label"]])})
        for row in dataset
    ]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "layout", ["{}-00000-of-00001.parquet", "data/{}-00000-of-00001.parquet", "default/{}/0000.parquet"]
)
def test_datasets_parquet(hub, tmp_path, layout, several):
    written = {split: make(hub, split, several) for split in SPLITS}
    for split, dataset in written.items():
        file = tmp_path / layout.format(split)
        file.parent.mkdir(parents=True, exist_ok=True)
        dataset.to_parquet(file)
    check(
        Parquet(root=tmp_path, multi_label=several, **options()),
        {split: rows_of(dataset, several) for split, dataset in written.items()},
    )


def test_datasets_paths_without_bytes(hub, tmp_path):
    files = []
    for number, picture in enumerate(pictures(4)):
        picture.save(tmp_path / f"{number}.png")
        files.append(str(tmp_path / f"{number}.png"))
    features = hub.Features({"image": hub.Image(), "label": hub.ClassLabel(names=["b", "a"])})
    dataset = hub.Dataset.from_dict({"image": files, "label": [0, 1, 1, 0]}, features=features)
    parquet.write_table(dataset.data.table, tmp_path / "train.parquet")  # to_parquet would put the bytes in
    assert parquet.read_table(tmp_path / "train.parquet")["image"].combine_chunks().field("bytes").null_count == 4
    check(Parquet(root=tmp_path, val_fraction=0.0, **options()), {"train": rows_of(dataset)})


@pytest.mark.parametrize("several", [False, True])
def test_datasets_save_to_disk(hub, tmp_path, several):
    written = {split: make(hub, split, several, 70) for split in SPLITS}
    hub.DatasetDict(**written, extra=written["test"]).save_to_disk(
        tmp_path / "set", num_shards=dict.fromkeys((*SPLITS, "extra"), 2)
    )
    data = Parquet(root=tmp_path / "set", multi_label=several, **options())
    check(data, {split: rows_of(dataset, several) for split, dataset in written.items()})
    assert data.notices == [f"{tmp_path / 'set'} has extra, which is no split and is left out (1 such)"]
    assert [data.train_set.keys[row] for row in (0, 69)] == ["train:0", "train:69"]
    again = pickle.loads(pickle.dumps(data.test_set))
    assert images.load(again[69][0], name="").equal(images.load(data.test_set[69][0], name=""))


def test_datasets_save_to_disk_of_one_split_that_was_shuffled(hub, tmp_path):
    dataset = make(hub, "train", several=False, count=20).shuffle(seed=1)
    dataset.save_to_disk(tmp_path / "one")
    check(Parquet(root=tmp_path / "one", val_fraction=0.0, **options()), {"train": rows_of(dataset)})
    dataset.to_parquet(tmp_path / "one/train.parquet")
    assert Parquet(root=tmp_path / "one", **options())._files["train"][0].name == "train.parquet"


def test_datasets_save_to_disk_with_labels_that_cannot_be_matched(hub, tmp_path):
    dataset = make(hub, "train", several=False)
    other = make(hub, "test", several=False).cast_column("label", hub.Value("int64"))
    hub.DatasetDict(train=dataset, test=other).save_to_disk(tmp_path / "set")
    data = Parquet(root=tmp_path / "set", **options())
    with pytest.raises(InputError, match=r"set/test has in row \d the label '\d', which train lacks"):
        data.setup("fit")
    (tmp_path / "set/train/state.json").write_text("{")
    with pytest.raises(InputError, match=r"set/train cannot be read .*; it is damaged or cut short"):
        Parquet(root=tmp_path / "set", **options()).num_classes  # noqa: B018


def test_datasets_imagefolder_with_metadata(hub, tmp_path):
    labels = ["owl", "cat", "owl"]
    for split in ("train", "validation"):
        (tmp_path / split).mkdir()
        for number, picture in enumerate(pictures(3)):
            picture.save(tmp_path / split / f"{number}.png")
        lines = [f"{number}.png,{label}" for number, label in enumerate(labels)]
        (tmp_path / split / "metadata.csv").write_text("\n".join(["file_name,label", *lines]) + "\n")
    theirs = hub.load_dataset("imagefolder", data_dir=str(tmp_path), cache_dir=str(tmp_path / "hub"))
    read = {split: [(np.asarray(row["image"]), {row["label"]}) for row in theirs[split]] for split in theirs}
    assert set(read) == {"train", "validation"}
    tables = {"train": Path("train/metadata.csv"), "val": Path("validation/metadata.csv")}
    check(Manifest(root=tmp_path, cache=tmp_path / "cache", **tables, **options()), read)


@given(content=st.data())
@settings(max_examples=40, deadline=None)
def test_polars_columns(content):
    polars = pytest.importorskip("polars")
    kinds = [polars.String, polars.Categorical, polars.Enum(content.draw(st.permutations(NAMES)))]
    read = {}
    with TemporaryDirectory() as folder:
        for split in SPLITS:
            known = sorted({name for _, names in read.get("train", ()) for name in names}) or NAMES
            labels = content.draw(st.lists(st.sampled_from(known), min_size=1, max_size=5))
            kind = content.draw(st.sampled_from(kinds))
            shown = pictures(len(labels))
            frame = polars.DataFrame(
                {"image": [png(picture) for picture in shown], "label": polars.Series(labels, dtype=kind)}
            )
            frame.write_parquet(f"{folder}/{split}.parquet")
            again = polars.read_parquet(f"{folder}/{split}.parquet")
            read[split] = [(np.asarray(Image.open(io.BytesIO(image))), {label}) for image, label in again.iter_rows()]
        check(Parquet(root=Path(folder), **options()), read)


@pytest.mark.parametrize("valid", ["val", "valid", "validation", "dev"])
def test_torchvisions_image_folder(tmp_path, valid):
    for split in ("train", valid, "test"):
        for name in ("zebra", "Owl", "ant"):
            (tmp_path / split / name / "deep").mkdir(parents=True)
            for number, picture in enumerate(pictures(3)):
                picture.save(tmp_path / split / name / "deep" / f"{number}.png")
    read = {}
    for ours, split in zip(SPLITS, ("train", valid, "test"), strict=True):
        theirs = TorchvisionFolder(tmp_path / split)
        read[ours] = [(np.asarray(picture), {theirs.classes[label]}) for picture, label in theirs]
    check(ImageFolder(root=tmp_path, **options()), read)
