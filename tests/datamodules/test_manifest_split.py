"""Manifest's splits: a column of them, groups that are never divided, and labels that are hidden or missing."""

import shlex
from pathlib import Path

import pytest
from PIL import Image

from datamodules.manifest import Manifest
from vit_lightning.augment import Augment
from vit_lightning.data.images import BrokenImage
from vit_lightning.data.sampling import IGNORE
from vit_lightning.errors import InputError
from vit_lightning.testing import check_datamodule


@pytest.fixture
def root(tmp_path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(40):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / f"{number}.png")
    return folder


def write(table: Path, header: str, rows: list[str]) -> None:
    table.write_text("\n".join([header, *rows]) + "\n")


def manifest(root: Path, **options) -> Manifest:
    options = {"image_size": 8, "batch_size": 2, "num_workers": 0, "cache": root.parent / "cache", **options}
    return Manifest(root=root, augment=Augment(crop="none"), **options)


def ready(root: Path, stage: str = "fit", **options) -> Manifest:
    data = manifest(root, **options)
    data.prepare_data()
    data.setup(stage)
    return data


def keys(data: Manifest) -> list[list[str]]:
    return [list(part.keys) if part is not None else [] for part in (data.train_set, data.val_set, data.test_set)]


def test_a_column_of_splits(root):
    splits = ["train"] * 4 + ["Valid"] * 2 + ["test"] * 2
    write(root / "train.csv", "path,label,fold", [f"{n}.png,{'ab'[n % 2]},{fold}" for n, fold in enumerate(splits)])
    data = ready(root, split_column="fold")
    assert keys(data) == [[f"{n}.png" for n in part] for part in (range(4), range(4, 6), range(6, 8))]
    assert data.test_set.labels.tolist() == [0, 1]
    check_datamodule(manifest(root, split_column="fold"))
    write(root / "train.csv", "path,label,fold", ["0.png,a,train", "1.png,b,train", "2.png,a,3"])
    with pytest.raises(InputError, match=r"train\.csv has for 2\.png the split '3', expected one of train, training"):
        ready(root, split_column="fold")
    write(root / "train.csv", "path,label,fold", ["0.png,a,train", "1.png,b,"])
    with pytest.raises(InputError, match=r"train\.csv has nothing in the column 'fold' in row 2 \(1\.png\)"):
        ready(root, split_column="fold")
    with pytest.raises(InputError, match=r"has no column 'part' but path, label, fold; give --data\.split_column"):
        ready(root, split_column="part")
    write(root / "train.csv", "path,label,fold", ["0.png,a,train", "1.png,b,val"])
    write(root / "val.csv", "path,label", ["2.png,a"])
    with pytest.raises(InputError, match="'fold', which names the splits train and val, beside tables of other"):
        ready(root, split_column="fold", val="val.csv")


def test_groups_are_drawn_whole(root, caplog):
    caplog.set_level("INFO")
    write(root / "train.csv", "path,label,patient", [f"{n}.png,{'ab'[n // 4 % 2]},{n // 4}.0" for n in range(40)])
    data = ready(root, group_column="patient", test_fraction=0.2, val_fraction=0.2)
    patients = [{int(key.removesuffix(".png")) // 4 for key in part} for part in keys(data)]
    assert [len(part) for part in keys(data)] == [24, 8, 8]
    assert sum(map(len, patients)) == 10
    assert "24 training, 8 validation and 8 test images, drawn by class, 6 + 2 + 2 values of patient, (" in caplog.text
    assert "split    images of a 12 + 4 + 4, b 12 + 4 + 4" in caplog.text and "no test set" not in caplog.text
    only = ready(root, group_column="patient")
    assert "split    no test set; --data.test_fraction 0.15 draws one" in caplog.text
    assert (len(only.train_set), len(only.val_set), only.test_set) == (36, 4, None)
    assert len({int(key.removesuffix(".png")) // 4 for key in only.val_set.keys}) == 1


def test_every_label_of_an_image_is_counted(root, caplog):
    caplog.set_level("INFO")
    rows = [f"{n}.png,{'a;b' if n % 2 else 'b'},{n // 4}" for n in range(40)]
    write(root / "train.csv", "path,label,patient", rows)
    flags = {"multi_label": True, "separator": ";", "test_fraction": 0.2, "val_fraction": 0.2}
    data = ready(root, group_column="patient", **flags)
    parts = [[int(key.removesuffix(".png")) for key in part] for part in keys(data)]
    counts = [[sum(n % 2 for n in part) for part in parts], list(map(len, parts))]
    said = [" + ".join(map(str, row)) for row in counts]
    assert f"split    images of a {said[0]}, b {said[1]}" in caplog.text


def test_groups_in_two_given_splits_are_refused(root):
    rows = [f"{n}.png,{'ab'[n % 2]},{'train' if n < 4 else 'val'},{n // 3}" for n in range(6)]
    write(root / "train.csv", "path,label,fold,patient", rows)
    said = (
        r"1 value of --data\.group_column patient has train and val images, such as '1' in row {} of \S+train\.csv "
        r"\(train\) and row {} of \S+{}\.csv \(val\); leave all images of one in one split"
    )
    with pytest.raises(InputError, match=said.format(4, 5, "train")):
        ready(root, split_column="fold", group_column="patient")
    write(root / "train.csv", "path,label,patient", ["0.png,a,0", "1.png,b,1"])
    write(root / "val.csv", "path,label,patient", ["2.png,a,2", "3.png,b,1"])
    with pytest.raises(InputError, match=said.format(2, 2, "val")):
        ready(root, val="val.csv", group_column="patient")


@pytest.mark.parametrize("is_of_run", [False, True])
def test_a_table_of_splits_may_not_divide_a_group(root, is_of_run):
    write(root / "train.csv", "path,label,patient", [f"{n}.png,{'ab'[n % 2]},{n // 2}" for n in range(10)])
    splits = ["train", "train", "val", "val", "test", "test", "train", "train", "train", "test"]
    table = root.parent / "split.csv"
    write(table, "file,split", [f"{n}.png,{split}" for n, split in reversed(list(enumerate(splits)))])
    said = (
        r"split\.csv has 8\.png in train in row 2 and 9\.png in test in row 1, which are both of '4' in "
        r"--data\.group_column; leave all images of one in one split"
    )
    data = manifest(root, group_column="patient", split_file=None if is_of_run else table)
    data.run_folder = root.parent if is_of_run else None
    data.prepare_data()
    with pytest.raises(InputError, match=said):
        data.setup("fit")
    write(table, "file,split", [f"{n}.png,{split}" for n, split in enumerate(splits) if n != 9])
    data = ready(root, group_column="patient", split_file=table, val_fraction=0.2)
    assert any(said.startswith("ignored: --data.val_fraction 0.2, since --data.split_file ") for said in data.notices)
    assert keys(data) == [["0.png", "1.png", "6.png", "7.png", "8.png"], ["2.png", "3.png"], ["4.png", "5.png"]]


def test_several_labels_are_divided_by_the_rarest(root):
    write(root / "train.csv", "path,label", [f"{n}.png,{'a;b' if n < 10 else 'a'}" for n in range(40)])
    for seed in range(6):  # a single split may have these shares by chance
        data = ready(root, multi_label=True, test_fraction=0.2, val_fraction=0.2, split_seed=seed)
        assert [sum(int(key.removesuffix(".png")) < 10 for key in part) for part in keys(data)] == [6, 2, 2]


@pytest.mark.parametrize("split", ["val", "test"])
@pytest.mark.parametrize("multi_label", [False, True])
def test_a_class_that_only_other_images_of_a_column_of_splits_have(root, multi_label, split):
    write(root / "train.csv", "path,label,fold", ["0.png,b,train", "1.png,c,train", f"2.png,a,{split}"])
    said = r"train\.csv has the label 'a' in row 3 \(2\.png\), which the training images of .*train\.csv lack"
    with pytest.raises(InputError, match=said):
        ready(root, split_column="fold", multi_label=multi_label)
    (root / "classes.txt").write_text("a\nb\nc\n")
    data = ready(root, split_column="fold", multi_label=multi_label, class_map=root / "classes.txt")
    assert data.class_names == ["a", "b", "c"] and len(data.test_set if split == "test" else data.val_set) == 1


def test_isics_columns(root):
    names = ["MEL", "NV", "UNK"]
    write(root / "train.csv", "image,MEL,NV,UNK", ["0,1.0,0.0,0.0", "1,0.0,1.0,0.0", "2,1.0,0.0,0.0"])
    data = ready(root, label_column=names, image_ending=".png", val_fraction=0.0)
    assert [data.class_names[label] for label in data.train_set.labels] == ["MEL", "NV", "MEL"]
    write(root / "train.csv", "image,MEL,NV,UNK", ["0,1.0,0.0,0.0", "1,0.0,,0.0"])
    with pytest.raises(InputError, match=r"has '' in the column of class NV, expected 0 or 1, in row 2 \(1\)"):
        ready(root, label_column=names, image_ending=".png")


def test_paths_of_windows(root):
    write(root / "train.csv", "path,label", ["C:\\photos\\0.png,a", "C:\\photos\\1.png,b"])
    with pytest.raises(InputError, match=r"; --data\.image_prefix 'C:\\photos\\' leads to 0\.png"):
        ready(root)
    for prefix in ("C:\\photos\\", "C:/photos/"):
        data = ready(root, image_prefix=prefix, val_fraction=0.0)
        assert [data.train_set[row][0] for row in (0, 1)] == [root / "0.png", root / "1.png"]


def test_a_row_of_another_class_than_in_the_kept_split_is_an_error(root):
    rows = [f"{n}.png,{'a' if n < 20 else 'b'}" for n in range(40)]
    write(root / "train.csv", "path,label", rows)
    write(
        root / "split.csv", "file,class,split", [f"{row},{'val' if n % 4 else 'train'}" for n, row in enumerate(rows)]
    )
    data = ready(root, split_file=root / "split.csv")
    assert len(data.train_set) == 10
    write(root / "train.csv", "path,label", [*rows[:-1], "39.png,a"])
    said = r"split\.csv has in row 40 39\.png in class 'b', and .* has it in class 'a'; correct the row, or remove the"
    with pytest.raises(InputError, match=said):
        ready(root, split_file=root / "split.csv")


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_kept_split_beside_a_table_of_its_own(app, root, split):
    rows = [f"{n}.png,{'ab'[n % 2]}" for n in range(40)]
    write(root / "train.csv", "path,label", rows[:20])
    write(root / f"{split}.csv", "path,label", rows[20:])
    listed = [f"{row},{split if n == 7 else 'train'}" for n, row in enumerate(rows[:20])]
    write(root / "split.csv", "file,class,split", listed)
    said = (
        rf"split\.csv puts 1 training images in {split}, such as 7\.png, and .* has 20 {split} images of its own; remov"
    )
    with pytest.raises(InputError, match=said):
        ready(root, split_file=root / "split.csv", **{split: Path(f"{split}.csv")})
    words = ("--data", "Manifest", "--data.root", root, f"--data.{split}", f"{split}.csv", "--data.image_size", 8)
    words += ("--data.split_file", root / "split.csv", "--data.batch_size", 2, "--data.cache", root / "cache")
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and "split.csv puts 1 training images" in done.out + done.err


def test_a_file_under_two_names_stays_in_one_split(root):
    rows = [f"{path}{n}.png,{'ab'[n % 2]}" for n in range(20) for path in ("", "./")]
    write(root / "train.csv", "path,label", rows)
    for seed in range(3):
        data = ready(root, val_fraction=0.3, test_fraction=0.3, split_seed=seed)
        parts = [{str(key).removeprefix("./") for key in part.keys} for part in (data.train_set, data.val_set)]
        assert not parts[0] & parts[1]


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("file,label,split", ["0.png,b,train"], "split.csv has in row 1 0.png in class 'b', and"),
        ("file,Class,split", ["0.png,b,train"], "correct the row, or remove the column class"),
        ("file,class,split", ["0.png,a,train", "./0.png,a,val"], "split.csv has 0.png in two splits, in row 1 and in"),
    ],
)
def test_doctor_reads_the_kept_split(app, root, header, rows, said):
    write(root / "train.csv", "path,label", [f"{n}.png,{'ab'[n % 2]}" for n in range(20)])
    write(root / "split.csv", header, [*rows, "1.png,b,train", "2.png,a,val"])
    words = ("--data", "Manifest", "--data.root", root, "--data.split_file", root / "split.csv", "--data.image_size", 8)
    words += ("--data.batch_size", 2, "--data.cache", root / "cache", "--model.net.variant", "mu/8")
    done = app("doctor", *words, "--trainer.accelerator", "cpu")
    assert done.code == 1 and said in done.out + done.err


@pytest.mark.parametrize("test_fraction", [None, 0.25])
def test_an_image_in_two_rows_stays_in_one_split(root, test_fraction):
    rows = [f"{form}{number}.png,{'cd'[number % 2]}" for form in ("", "./", "") for number in range(8)]
    write(root / "train.csv", "path,label", rows)
    data = manifest(root, val_fraction=0.25, test_fraction=test_fraction)
    data.setup("fit")
    parts = [
        {Path(str(key)).name for key in images.keys}
        for images in (data.train_set, data.val_set, data.test_set)
        if images
    ]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 8 and len(data.val_set) == 6


def test_a_file_that_is_missing_is_named_once_with_its_row(root):
    write(root / "train.csv", "path,label", [f"{n}.png,{'ab'[n % 2]}" for n in range(20)])
    (root / "5.png").unlink()
    data = ready(root, val_fraction=0.0)
    with pytest.raises(BrokenImage) as told:
        data.train_set[5]
    assert str(told.value).startswith(f"row 6 of its table: No such file as 5.png in {root}")
    assert str(told.value).count(" 5.png") == 1


def test_other_data_need_no_training_table(root):
    """Their classes are those of the test table, which a trained net looks up by name; hidden labels are none."""
    write(root / "labels.csv", "path,label", ["0.png,dog", "1.png,cat", "2.png,-1", "3.png,cat"])
    for options in ({}, {"train": None}):  # there is no train.csv
        data = ready(root, "test", test="labels.csv", **options)
        assert data.class_names == ["cat", "dog"] and data.test_set.labels.tolist() == [1, 0, IGNORE, 0]
        assert data.train_set is None and data.val_set is None
        with pytest.raises(InputError, match=r"a fit needs training images; give --data\.train"):
            data.setup("fit")
    write(root / "bare.csv", "path", ["0.png", "1.png"])
    bare = ready(root, "predict", train=None, test="bare.csv")
    assert bare.num_classes is None and len(bare.test_set) == 2
    for options, said in (
        ({}, "leaves no table"),
        ({"test": "labels.csv", "split_column": "fold"}, "give --data.train"),
    ):
        with pytest.raises(InputError, match=said):
            manifest(root, train=None, **options)


def test_several_tables_of_one_split_are_refused_in_a_sentence(root):
    with pytest.raises(
        InputError, match=r"--data\.train \['a\.csv', 'b\.csv'\] is no table; give one, with the rows of"
    ):
        manifest(root, train=["a.csv", "b.csv"])


@pytest.mark.parametrize("column", ["patient", "Patient ID", "subject_id", "patientId"])
def test_a_column_of_patients_without_its_flag_is_named_in_a_fit(root, caplog, column):
    write(root / "train.csv", f"path,label,{column}", [f"{n}.png,{'ab'[n % 2]},{n // 4}" for n in range(40)])
    ready(root)
    said = f"has the column {column}: --data.group_column {shlex.quote(column)} keeps all images of one in one split"
    assert caplog.text.count(said) == 1
    caplog.clear()
    ready(root, group_column=column)
    ready(root, "test")
    ready(root, label_column=column)
    ready(root, group_column=False)
    assert "keeps all images" not in caplog.text


def test_labels_from_1_beside_a_longer_list_of_names(root):
    write(root / "train.csv", "path,label", [f"{number}.png,{number % 2 + 1}" for number in range(8)])
    (root / "map.txt").write_text("cat\ndog\ncow\n")
    with pytest.raises(InputError, match=r"has the labels 1 to 2 and no 0 in training, and .*map\.txt lists 3 names"):
        ready(root, class_map=root / "map.txt")
    (root / "map.csv").write_text("0,cat\n1,dog\n2,cow\n")
    assert set(ready(root, class_map=root / "map.csv").train_set.labels.tolist()) == {1, 2}
