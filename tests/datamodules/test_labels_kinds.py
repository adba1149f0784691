"""Labels and groups that are written otherwise than they are meant."""

from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from datamodules.parquet import Parquet
from tests.datamodules.test_labels import READERS, manifest, picture, read, root, setup, shown  # noqa: F401  # a fixture
from vit_lightning.errors import InputError


@pytest.mark.parametrize("sign", [",", "|", " , "])
def test_another_sign_between_labels(root, sign):  # noqa: F811
    (root / "train.csv").write_text(f'path,label\n0.png,"a{sign}b"\n1.png,a\n2.png,b\n')
    said = rf"the label .a.*b. in row 1 .*, whose parts are labels of their own; give --data.separator .{sign.strip()}"
    with pytest.raises(InputError, match=said.replace("|", r"\|")):
        manifest(root, multi_label=True)
    assert shown(manifest(root, multi_label=True, separator=sign.strip()), 3) == [{"a", "b"}, {"a"}, {"b"}]
    (root / "train.csv").write_text(f'path,label\n0.png,"a{sign}b"\n1.png,a\n2.png,c\n3.png,c;d\n')
    assert len(manifest(root, multi_label=True).class_names) == 4  # images have several labels by this sign


@pytest.mark.parametrize("labels", [["a|z", "b|z", "c"], ["a,z", "b,z", "c"], ["z|b", "b", "c"], ["b,z", "b", "c"]])
@pytest.mark.parametrize("reader", ["csv", "WebShards cls", "WebShards json", "Parquet"])
def test_labels_that_are_never_divided(root, reader, labels):  # noqa: F811
    labels = labels if reader == "csv" else [[label] for label in labels]
    said = r"the label '\w[|,]\w'.*, whose parts other labels are or have; (give --data\.separator|divide it at) '[|,]'"
    with pytest.raises(InputError, match=said):
        read(root, reader, multi_label=True, train=labels)
    several = "c;d" if reader == "csv" else ["c", "d"]
    assert len(read(root, reader, multi_label=True, train=[*labels, several]).class_names) == 4
    names = ["bird", "crane, machine", "missile", "projectile, missile"]
    data = read(root, reader, multi_label=True, train=names if reader == "csv" else [[name] for name in names])
    assert data.class_names == names


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("sign", ["|", ";", "\uff1b"])
def test_a_part_of_a_label_that_is_another(root, reader, sign):  # noqa: F811
    said = r"the label 'b.z'.*, whose parts other labels are or have; give --data\.multi_label true if it holds several"
    with pytest.raises(InputError, match=said):
        read(root, reader, train=[f"b{sign}z", "b", "c"])
    assert len(read(root, reader, train=[f"b{sign}z", f"b{sign}y", "b,x", "x"]).class_names) == 4


@pytest.mark.parametrize(
    ("reader", "sign"),
    [
        (reader, sign)
        for reader in ("csv", "WebShards cls", "WebShards json", "Parquet")
        for sign in (" ", "_", "-", ".", " and ", ";")
        if (reader, sign) != ("csv", ";")  # it divides labels there
    ],
)
@pytest.mark.parametrize("names", [("scab", "rust"), ("1", "2")])
def test_a_sign_of_names_between_labels(root, reader, sign, names):  # noqa: F811
    one, other = names
    labels = [one, other, f"{one}{sign}{other}"]
    train = labels if reader == "csv" else [[label] for label in labels]
    said = rf"the label '{one}{sign}{other}'.* parts are labels of their own; (give .*separator|divide it at) '{sign}'"
    if (sign, one) == (".", "1"):
        said = "'1.2'.*, expected names or whole numbers"
    with pytest.raises(InputError, match=said):
        read(root, reader, multi_label=True, train=train)
    if reader == "csv" and said[0] == "t":
        assert shown(manifest(root, multi_label=True, separator=sign), 3) == [{one}, {other}, {one, other}]
    if one == "scab" and sign != ";":
        assert len(read(root, reader, train=labels).class_names) == 3  # one class an image: these are names


@pytest.mark.parametrize("reader", ["csv", "WebShards cls"])
@pytest.mark.parametrize(
    ("labels", "is_said"),
    [
        (["1 2", "3 4", "5 7 9"], True),
        (["a b", "b c", "a c"], True),
        (["brown dog", "white dog"], False),
        (["p_1", "p_2", "p_3"], False),
        (["a b", "c"], False),
    ],
)
def test_labels_that_are_all_lists_are_said(root, reader, labels, is_said):  # noqa: F811
    train = labels if reader == "csv" else [[label] for label in labels]
    data = read(root, reader, multi_label=True, train=train)
    said = any("each label may be several, such as" in text and "' '" in text for text in data.notices)
    assert said == is_said and data.class_names == sorted(labels)


def test_a_blank_between_labels_beside_another_sign_is_said(root):  # noqa: F811
    (root / "train.csv").write_text("path,label\n0.png,fire truck\n1.png,fire;bus\n2.png,truck\n")
    data = manifest(root, multi_label=True)
    assert any("'fire truck' may be several" in text and "--data.separator ' '" in text for text in data.notices)


@pytest.mark.parametrize("pair", [("p1", "P1"), ("1", "01"), ("p\u00e9", "pe\u0301")])
def test_groups_in_two_spellings(root, pair):  # noqa: F811
    (root / "train.csv").write_text(
        f"path,label,patient\n0.png,a,{pair[0]}\n1.png,b,{pair[1]}\n2.png,a,p3\n3.png,b,p4\n", encoding="utf-8"
    )
    with pytest.raises(InputError, match=r"--data\.group_column patient has '.*' and '.*', which may be one"):
        manifest(root, group_column="patient", val_fraction=0.3)


@pytest.mark.parametrize("pair", [("p1", " p1"), ("1", "1.0")])
def test_groups_that_are_one(root, pair):  # noqa: F811
    rows = [f"{number}.png,{'ab'[number % 2]},{group}" for number, group in enumerate((*pair, "7", "8"))]
    (root / "train.csv").write_text("\n".join(["path,label,patient", *rows]))
    data = manifest(root, group_column="patient", val_fraction=0.3)
    for images in (data.train_set, data.val_set):
        assert len({"0.png", "1.png"} & set(map(str, images.keys))) != 1


def test_groups_whose_letters_differ_by_chance(root):  # noqa: F811
    rows = [f"{number}.png,{'ab'[number % 2]},{group}" for number, group in enumerate(["aZ3x", "Az3X", "q", "r"])]
    (root / "train.csv").write_text("\n".join(["path,label,patient", *rows]))
    data = manifest(root, group_column="patient", val_fraction=0.3)
    assert len(data.train_set) + len(data.val_set) == 4


def test_an_ending_without_its_dot(root):  # noqa: F811
    (root / "train.csv").write_text("path,label\n0,a\n1,b\n")
    assert [manifest(root, image_ending="png").train_set[row][0].name for row in range(2)] == ["0.png", "1.png"]


@pytest.mark.parametrize("reader", ["parquet table", "Parquet"])
def test_decimal_labels(root, reader):  # noqa: F811
    data = read(root, reader, train=[Decimal(2), Decimal(0), Decimal(10)], val=[2])
    assert data.num_classes == 11 and shown(data, 3) == [{"2"}, {"0"}, {"10"}] and data.val_set[0][1] == 2
    with pytest.raises(InputError, match=r"0\.5"):
        read(root, reader, train=[Decimal("0.5"), Decimal("1.0")])


def write(file, *labels):
    file.parent.mkdir(parents=True, exist_ok=True)
    image = picture(sum(file.stem.encode()) % 256)  # another one in each file
    parquet.write_table(pa.table({"image": [image] * len(labels), "label": list(labels)}), file)


def test_parquet_files_in_two_places(root):  # noqa: F811
    write(root / "train.parquet", "a", "b")
    write(root / "data/train-00000-of-00001.parquet", "b", "a")
    with pytest.raises(InputError, match=r"set/train\.parquet and .*data/train-0.* are both train data; keep one"):
        setup(Parquet(root=root, image_size=8))
    (root / "train.parquet").rename(root / "test.parquet")
    data = setup(Parquet(root=root, image_size=8))
    assert len(data.test_set) == 2 and "both hold splits, which are read as one set" in data.notices[0]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["train-00000-of-00002"], r"is one of 2 files, of which 1 are missing, such as number 1; fetch them"),
        (["train-00001-of-00002-0a1b"], r"is one of 2 files, of which 1 are missing, such as number 0; fetch them"),
        (
            ["train-00000-of-00002", "train-00001-of-00002", "train-00000-of-00003"],
            r"train-00000-of-00002\.parquet is one of 2 files and .*train-00000-of-00003\.parquet one of 3; remove",
        ),
        (["train-00000-of-00001-0a", "train-00000-of-00001-0b"], r"are both file 0 of 1; remove one"),
        (["train", "test-00000-of-00002"], r"test-00000-of-00002\.parquet is one of 2 files"),
    ],
)
@pytest.mark.parametrize("folder", ["", "data/"])
def test_parquet_files_that_are_counted(root, names, said, folder):  # noqa: F811
    for name in names:
        write(root / f"{folder}{name}.parquet", "a", "b")
    with pytest.raises(InputError, match=said):
        setup(Parquet(root=root, image_size=8))


@pytest.mark.parametrize(
    ("names", "others"),
    [
        (["train-00000-of-00001"], ["train"]),
        (["train"], ["train_old"]),
        (["train"], ["train (1)"]),
        (["train-0", "train-1"], ["train-1 copy"]),
        (["train-00000-of-00001", "test-00000-of-00001"], ["test"]),
    ],
)
@pytest.mark.parametrize("folder", ["", "data/"])
def test_parquet_files_of_two_writings(root, names, others, folder):  # noqa: F811
    for name in (*names, *others):
        write(root / f"{folder}{name}.parquet", "a", "b")
    with pytest.raises(InputError, match=r"may be two writings of one set; remove one, or move the files of the set"):
        setup(Parquet(root=root, image_size=8))
    for name in others:
        (root / f"{folder}{name}.parquet").unlink()
    assert len(setup(Parquet(root=root, image_size=8, val_fraction=0.0)).train_set) % 2 == 0


@pytest.mark.parametrize("names", [("a", "b"), ("part-0", "part-1")])
def test_parquet_files_in_the_folder_of_a_split(root, names):  # noqa: F811
    for name in names:
        write(root / f"train/{name}.parquet", "a", "b")
    assert len(setup(Parquet(root=root, image_size=8, val_fraction=0.0)).train_set) == 4
    for name in (f"{names[0]} (1)", "train-00000-of-00001"):
        write(root / f"train/{name}.parquet", "a", "b")
        with pytest.raises(InputError, match="may be two writings of one set"):
            setup(Parquet(root=root, image_size=8))
        (root / f"train/{name}.parquet").unlink()


def test_doctor_finds_parquet_files_of_two_writings(app, root):  # noqa: F811
    for name in ("train", "train-00000-of-00001"):
        write(root / f"{name}.parquet", "a", "b")
    words = ("--data", "Parquet", "--data.root", root, "--data.image_size", 8, "--data.batch_size", 2)
    done = app("doctor", *words, "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")
    assert done.code == 1 and "may be two writings of one set" in done.out + done.err


def test_splits_that_were_saved_each_by_itself(root):  # noqa: F811
    datasets = pytest.importorskip("datasets")
    for split, labels in (("train", ["b", "a"]), ("validation", ["a"])):
        made = datasets.Dataset.from_dict({"image": [picture()] * len(labels), "label": labels})
        made.save_to_disk(str(root / split))
    data = setup(Parquet(root=root, image_size=8))
    assert shown(data, 2) == [{"b"}, {"a"}] and data.val_set[0][1] == 0
