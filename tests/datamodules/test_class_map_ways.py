"""Ways out that errors about class maps name lead to true labels; other ways are refused."""

import io
import re
import tarfile

import pytest

from datamodules.webshards import WebShards
from tests.datamodules.test_class_map_merges import folders
from tests.datamodules.test_class_map_obeyed import listed  # noqa: F401  # a fixture
from tests.datamodules.test_labels import READERS, picture, read, root, setup, shown  # noqa: F401  # root is a fixture
from vit_lightning.errors import InputError

FROM_1 = "lists 3 names: the list counts from 0 and the labels from 1; give --data.class_map a .csv with the lines "


@pytest.mark.parametrize("labels", [["1", "2", "3"], ["1.0", "2.0", "3.0"], ["2", "3"]])
@pytest.mark.parametrize("reader", READERS)
def test_numbers_from_1_beside_as_many_names_get_the_lines_that_work(root, reader, labels):  # noqa: F811
    (root / "map.txt").write_text("a\nb\nc\n")
    with pytest.raises(InputError) as told:
        read(root, reader, train=labels, class_map=root / "map.txt")
    assert FROM_1 in str(told.value) and "add it" not in str(told.value)
    lines = str(told.value).partition(FROM_1)[2].split()
    assert len(lines) == len(labels)
    (root / "map.csv").write_text("\n".join(lines))
    data = read(root, reader, train=labels, class_map=root / "map.csv")
    assert shown(data, len(labels)) == [{" abc"[int(label[0])]} for label in labels]


@pytest.mark.parametrize(
    ("labels", "lines"),
    [
        (["1", "2", "3"], ["a", "b", "c", "3"]),
        (["0", "1"], ["neg", "pos", "0", "1"]),
        (["0", "1", "2"], ["0", "a", "b"]),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_numbers_among_names_are_refused_beside_numbers(root, reader, labels, lines):  # noqa: F811
    (root / "map.txt").write_text("\n".join(lines))
    said = r"has numbers as labels, such as \d, and .*map\.txt has the number \d among its names, which may be"
    with pytest.raises(InputError, match=said):
        read(root, reader, train=labels, class_map=root / "map.txt")


@pytest.mark.parametrize("reader", READERS)
def test_numbers_beyond_a_list_are_not_added_to_its_names(root, reader):  # noqa: F811
    (root / "map.txt").write_text("a\nb\nc\n")
    with pytest.raises(InputError) as told:
        read(root, reader, train=["0", "1", "7"], class_map=root / "map.txt")
    assert "add it there" not in str(told.value)
    assert re.search(r"a \.csv with (a line NUMBER,NAME|the lines 0,NAME and so on)", str(told.value))


@pytest.mark.parametrize(
    ("found", "lines"),
    [(["0", "1"], ["0,neg", "1,pos"]), (["1", "2"], ["1,neg", "2,pos"]), (["00", "01"], ["00,neg", "01,pos"])],
)
def test_folders_of_numbers_beside_a_list_of_names(tmp_path, found, lines):
    (tmp_path / "map.txt").write_text("neg\npos\n")
    with pytest.raises(InputError, match=rf"; give --data\.class_map a \.csv with the lines {' '.join(lines)}$"):
        folders(tmp_path / "set", *found, class_map=tmp_path / "map.txt")
    (tmp_path / "map.csv").write_text("\n".join(lines))
    data = folders(tmp_path / "set", *found, class_map=tmp_path / "map.csv")
    assert data.class_names == ["neg", "pos"] and set(data.train_set.labels.tolist()) == {0, 1}
    (tmp_path / "map.txt").write_text("\n".join(["neg", "pos", *found]))
    with pytest.raises(InputError, match=r"map\.txt has the number \d+ among its names"):
        folders(tmp_path / "set", *found, class_map=tmp_path / "map.txt")


def test_a_class_of_none_beside_those_of_numbers_is_no_mixture(tmp_path):
    (tmp_path / "map.txt").write_text("none\n0\n1\n2\n")
    data = folders(tmp_path / "set", "0", "1", "2", class_map=tmp_path / "map.txt")
    assert data.class_names == ["none", "0", "1", "2"] and set(data.train_set.labels.tolist()) == {1, 2, 3}


@pytest.mark.parametrize(
    ("name", "text", "classes"),
    [
        ("map.csv", "3a,ill\n4,ill\n5,well\n", {"3a": "ill", "4": "ill", "5": "well"}),
        ("map.json", '{"3a": "ill", "4": "ill", "5": "well"}', {"3a": "ill", "4": "ill", "5": "well"}),
        ("map.json", '{"name": "A", "0": "B", "1": "C"}', {"name": "A", "0": "B", "1": "C"}),
        ("map.csv", "0.5,half\n1,one\n2,two\n", {"0.5": "half", "1": "one", "2": "two"}),
        ("map.csv", "none,nothing\n1,cat\n2,dog\n", {"none": "nothing", "1": "cat", "2": "dog"}),
        ("map.csv", "unk,other\n0,cat\n1,dog\n", {"unk": "other", "0": "cat", "1": "dog"}),
        ("map.csv", "name,Name\nlogo,Logo\n", {"name": "Name", "logo": "Logo"}),
        ("map.csv", "class,Class\n0,cat\n1,dog\n", {"class": "Class", "0": "cat", "1": "dog"}),
        ("map.csv", "id,name\nlogo,Logo\nsign,Sign\n", {"logo": "Logo", "sign": "Sign"}),
        ("map.csv", "id,name\n0,Logo\n1,Sign\n", {"0": "Logo", "1": "Sign"}),
    ],
)
def test_a_first_line_is_a_header_by_its_words_alone(tmp_path, name, text, classes):
    (tmp_path / name).write_text(text)
    data = folders(tmp_path / "set", *classes, class_map=tmp_path / name)
    assert {*data.class_names} == {*classes.values()}
    found = {key.split("/")[-2]: data.class_names[label] for key, label in keys_and_labels(data)}
    assert found == classes


def keys_and_labels(data):
    return zip(map(str, data.train_set.keys), data.train_set.labels.tolist(), strict=True)


@pytest.mark.parametrize("reader", READERS)
def test_a_label_called_as_a_header_has_its_line(root, reader):  # noqa: F811
    (root / "map.csv").write_text("name,Name\nlogo,Logo\n")
    data = read(root, reader, train=["logo", "name"], class_map=root / "map.csv")
    assert shown(data, 2) == [{"Logo"}, {"Name"}] and data.class_names == ["Logo", "Name"]


@pytest.mark.parametrize("text", ["-1,neg\n1,pos\n", "1,pos\n-1,neg\n", "label,name\n-1,neg\n1,pos\n"])
@pytest.mark.parametrize("reader", READERS)
def test_a_first_line_of_a_number_below_0(root, reader, text):  # noqa: F811
    (root / "map.csv").write_text(text)
    data = read(root, reader, train=["-1", "1"], class_map=root / "map.csv")
    assert shown(data, 2) == [{"neg"}, {"pos"}]


@pytest.mark.parametrize("text", ["ill,3a\nwell,4\nfine,5\n", "synsets,place\nn01,0\nn02,1\n"])
def test_a_first_line_that_lacks_the_number_of_all_others(tmp_path, text):
    (tmp_path / "map.csv").write_text(text)
    first = text.partition("\n")[0]
    with pytest.raises(InputError, match=f"its line '{first}' has no number where all others have one; if it is"):
        folders(tmp_path / "set", "n01", "n02", class_map=tmp_path / "map.csv")


@pytest.mark.parametrize("sign", [";", "\t"])
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cat;Katze\ndog;Hund, groß\n", []),
        ("label;name\ncat;Katze\ndog;Hund, groß\n", []),
        ("\nid;name\n0;dog\n1;cat\n", ["dog", "cat"]),
        ('1;dog\n0;"cat"\n', ["cat", "dog"]),
    ],
)
def test_a_table_with_semicolons_or_tabs(tmp_path, sign, text, names):
    (tmp_path / "map.csv").write_text(text.replace(";", sign), encoding="utf-8")
    data = folders(tmp_path / "set", "cat", "dog", class_map=tmp_path / "map.csv")
    assert data.class_names == (names or ["Katze", "Hund, groß"])


@pytest.mark.parametrize("text", ["id,name\n1,cat\n2,dog\n", "name,id\ncat,1\ndog,2\n", "cat,0\ndog,5\n"])
def test_numbers_from_1_of_labels_that_are_names(tmp_path, text):
    (tmp_path / "map.csv").write_text(text)
    (said,) = folders(tmp_path / "set", "cat", "dog", class_map=tmp_path / "map.csv").notices
    assert "renames nothing" in said and "wrong way round" not in said
    assert said.endswith("; they are called as its classes: count its numbers from 0, without a gap, for their order")
    (tmp_path / "map.csv").write_text("id,name\n1,cat\n0,dog\n")
    data = folders(tmp_path / "set", class_map=tmp_path / "map.csv")
    assert data.class_names == ["dog", "cat"] and not data.notices


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("map.txt", "-1\n1\n", ["-1", "1"]),
        ("map.csv", "-1,neg\n1,pos\n", ["neg", "pos"]),
        ("map.csv", "label,class\n1,pos\n-1,neg\n", ["neg", "pos"]),
        ("map.json", '{"-1": "neg", "1": "pos"}', ["neg", "pos"]),
    ],
)
@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("reader", ["parquet table", "Parquet", "jsonl", "WebShards json"])
def test_a_number_below_0_that_a_map_names(root, reader, kind, name, text, names):  # noqa: F811
    (root / name).write_text(text)
    data = read(root, reader, train=[kind(-1), kind(1), kind(-1)], class_map=root / name)
    assert shown(data, 3) == [{names[0]}, {names[1]}, {names[0]}] and data.class_names == names


def test_fractions_that_a_map_names(root):  # noqa: F811
    (root / "map.csv").write_text("0.5,half\n1.5,more\n")
    data = read(root, "Parquet", train=[0.5, 1.5, 0.5], class_map=root / "map.csv")
    assert shown(data, 3) == [{"half"}, {"more"}, {"half"}]
    (root / "map.csv").write_text("0.5,half\n")
    with pytest.raises(InputError, match=r"row 2 the label 1\.5"):
        read(root, "Parquet", train=[0.5, 1.5, 0.5], class_map=root / "map.csv")


@pytest.mark.parametrize(
    ("pair", "line"), [(("1", "1.0"), "1,1.0"), (("01", "1"), "01,1"), (("cat", "cat "), "cat,cat")]
)
def test_the_line_that_makes_one_class_of_two_spellings_does(tmp_path, pair, line):
    with pytest.raises(InputError, match=rf"give --data\.class_map: a \.csv with the line {line} for one class"):
        folders(tmp_path / "set", *pair, "2")
    (tmp_path / "map.csv").write_text(line)
    data = folders(tmp_path / "set", class_map=tmp_path / "map.csv")
    found = {key.split("/")[-2]: data.class_names[label] for key, label in keys_and_labels(data)}
    name = line.partition(",")[2]
    assert found == {pair[0]: name, pair[1]: name, "2": "2"}


@pytest.mark.parametrize(("pair", "line"), [(("1", "01"), "01,1"), (("3", "03"), "03,3")])
def test_the_line_of_two_spellings_of_labels(root, pair, line):  # noqa: F811
    with pytest.raises(InputError, match=rf"a \.csv with the line {line} for one class"):
        read(root, "csv", train=[*pair, "2"])
    (root / "map.csv").write_text(line)
    assert shown(read(root, "csv", train=[*pair, "2"], class_map=root / "map.csv"), 3) == [{pair[0]}, {pair[0]}, {"2"}]


@pytest.mark.parametrize(("name", "text"), [("map.txt", "[a]\n[b]\n"), ("map.csv", "[a],a\n[b],b\n")])
def test_a_name_in_brackets_is_a_whole_sentence(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    said = r"cannot be read: it has the list or object '\[a\]', expected a name without the brackets around it$"
    with pytest.raises(InputError, match=said):
        folders(tmp_path / "set", "a", "b", class_map=tmp_path / name)


@pytest.mark.parametrize("name", ["map.txt", "map.csv"])
@pytest.mark.parametrize("counts", [(2, 2, 2), (1, 1, 4)])
def test_a_list_in_another_order_than_folders_say(listed, root, counts, name):  # noqa: F811
    names = ["cat", "dog", "cow"]
    paths = [f"{name}/{number}.png" for name, count in zip(names, counts, strict=True) for number in range(count)]
    labels = [names.index(path.partition("/")[0]) for path in paths]

    def write(order):
        lines = [f"{place},{one}" if name == "map.csv" else one for place, one in enumerate(order)]
        (root / name).write_text("\n".join(lines))

    write(["cow", "dog", "cat"])
    said = r"row 1 the label '0 \(cow\)' in the column 'label' for cat/0\.png, .* see whether --data\.class_map lists"
    with pytest.raises(InputError, match=said):
        listed(paths, labels, class_map=root / name)
    write(names)
    assert listed(paths, labels, class_map=root / name).class_names == names


def test_a_corrected_number_beside_a_list_is_a_notice(listed, root):  # noqa: F811
    (root / "map.txt").write_text("cat\ndog\n")
    paths = [f"{name}/{number}.png" for name in ("cat", "dog") for number in range(10)]
    data = listed(paths, [0] * 8 + [1] * 12, class_map=root / "map.txt")
    (said,) = [one for one in data.notices if "another label" in one]
    assert "row 9 the label '1 (dog)'" in said and "in 2 of 20 such rows" in said and "order of the numbers" in said


def write_tar(file, samples):
    with tarfile.open(file, "w") as tar:
        for number, (key, label) in enumerate(samples):
            for name, data in ((f"{key}.png", picture(number)), (f"{key}.cls", label.encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def test_numbers_in_another_order_beside_a_name_in_tars(tmp_path):
    write_tar(tmp_path / "train.tar", [(f"{number:03d}", ("0", "1", "cat")[number % 3]) for number in range(6)])
    (tmp_path / "map.json").write_text('["1", "0", "cat"]')
    options = {"val_fraction": 0.0, "image_size": 8, "cache": tmp_path / "cache", "class_map": tmp_path / "map.json"}
    with pytest.raises(
        InputError, match=r"has numbers as labels, and the classes of --data\.class_map are numbers in ano"
    ):
        setup(WebShards(root=str(tmp_path), **options))


def test_a_list_in_another_order_than_folders_in_tars_say(tmp_path):
    names = ["cat", "dog", "cow"]
    write_tar(tmp_path / "train.tar", [(f"{names[number % 3]}/{number}", str(number % 3)) for number in range(6)])
    options = {"val_fraction": 0.0, "image_size": 8, "cache": tmp_path / "cache", "class_map": tmp_path / "map.txt"}
    (tmp_path / "map.txt").write_text("cow\ndog\ncat\n")
    with pytest.raises(InputError, match=r"sample cat/0 has the label '0 \(cow\)', and its folder .* in 4 of 6 such"):
        setup(WebShards(root=str(tmp_path), **options))
    data = setup(WebShards(root=str(tmp_path), label_part="cls", **options))
    assert any("sample cat/0" in said and "the label counts" in said for said in data.notices)
    (tmp_path / "map.txt").write_text("cat\ndog\ncow\n")
    assert not setup(WebShards(root=str(tmp_path), **options)).notices
