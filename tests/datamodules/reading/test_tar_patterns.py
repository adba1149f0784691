"""What names of tars mean in a folder and on a server."""

import pytest

from datamodules.reading.tar_patterns import _found, expand, matching
from tests import servers
from vit_lightning.errors import InputError

NAMES = ("train-000.tar", "train-001.tar", "train-010.tar", "train-x.tar", "val.tar", "a[1].tar", ".hidden.tar")


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "set [v1]"
    (root / "deep").mkdir(parents=True)
    for name in (*NAMES, "deep/train-5.tar"):
        (root / name).touch()
    return root


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("train-00?.tar", ["train-000.tar", "train-001.tar"]),
        ("train-0[0-9]0.tar", ["train-000.tar", "train-010.tar"]),
        ("train-[!0-9].tar", ["train-x.tar"]),
        ("*.tar", sorted(NAMES[:6])),
        ("{train-00*,val}.tar", ["train-000.tar", "train-001.tar", "val.tar"]),
        ("**/train-?.tar", ["deep/train-5.tar", "train-x.tar"]),
        ("a[1].tar", ["a[1].tar"]),  # a file of that very name
        ("train-0*.tar::train-000.tar", ["train-000.tar", "train-001.tar", "train-010.tar"]),  # each once
    ],
)
def test_in_a_folder(folder, pattern, names):
    assert matching(str(folder), pattern) == [str(folder / name) for name in names]


def test_absolute_names(tmp_path):
    (tmp_path / "train-1.tar").touch()
    assert matching("/nowhere", f"{tmp_path}/train-?.tar") == [f"{tmp_path}/train-1.tar"]


def test_on_a_server_that_lists_its_files(folder):
    with servers.http(folder) as address:
        names = ["train-000.tar", "train-001.tar", "train-010.tar", "train-x.tar"]
        assert matching(address, "train-*.tar") == [f"{address}/{name}" for name in names]
        assert matching(address, "train.tar?key=1") == [f"{address}/train.tar?key=1"]  # a query
        assert matching(address, "none-*.tar") == []


def test_in_a_bucket():
    import fsspec

    memory = fsspec.filesystem("memory")
    for name in NAMES:
        memory.pipe(f"/set/{name}", b"")
    assert matching("memory://set", "train-00?.tar") == ["memory:///set/train-000.tar", "memory:///set/train-001.tar"]
    assert matching("memory://set", "train-0[01]0.tar") == [
        "memory:///set/train-000.tar",
        "memory:///set/train-010.tar",
    ]


@pytest.mark.parametrize("root", ["pipe:aws s3 cp s3://x", "/data"])
def test_commands_are_refused_by_name(root):
    with pytest.raises(
        InputError, match=r"'pipe:aws s3 cp s3://x.*': pipe: runs a shell command, which WebShards does"
    ):
        matching(root, "pipe:aws s3 cp s3://x/train-{000..009}.tar -")


def test_a_place_that_cannot_be_listed(monkeypatch):
    from datamodules.reading import tar_patterns

    class Closed:
        def glob(self, path):
            raise PermissionError("403 Forbidden")

    monkeypatch.setattr(tar_patterns, "file_system", lambda url: (Closed(), url))
    with pytest.raises(InputError, match=r"cannot be listed \(403 Forbidden\); write the names out, as in train-\{000"):
        matching("https://host", "train-*.tar")


def test_a_range_beyond_reason():
    with pytest.raises(InputError, match=r"\{0\.\.99999999999\} stands for more than 1,000,000 names"):
        expand("{0..99999999999}")


@pytest.mark.parametrize(
    "other", ["train_old-000.tar", "trainval-1.tar", "train-000 (1).tar", "train-000-copy.tar", "train_extra-0.tar"]
)
def test_tars_that_may_be_another_set(tmp_path, other):
    for name in ("train-000.tar", "train-x.tar", other):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"train-000\.tar and .* may be tars of two sets; .* joined by ::"):
        matching(str(tmp_path), "train*.tar")
    assert matching(str(tmp_path), f"train-0??.tar::{other}") == [
        str(tmp_path / "train-000.tar"),
        str(tmp_path / other),
    ]


@pytest.mark.parametrize(
    "names",
    [
        ["train_cats-0.tar", "train_dogs-0.tar"],
        ["cats.tar", "train-0.tar", "val-0.tar"],
        ["train-0-of-2.tar", "train.tar"],
    ],
)
def test_tars_of_other_names(tmp_path, names):
    for name in names:
        (tmp_path / name).touch()
    assert matching(str(tmp_path), "*.tar") == [str(tmp_path / name) for name in names]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a", "a"),
        ("{8..11}", "8 9 10 11"),
        ("{08..11}", "08 09 10 11"),
        ("{8..011}", "008 009 010 011"),
        ("{11..08}", "11 10 09 08"),
        ("{0..5..2}", "0 2 4"),
        ("{5..0..2}", "5 3 1"),
        ("{1..2..0}", "1 2"),
        ("{0..1}", "0 1"),
        ("{0..10..5}", "0 5 10"),
        ("{00..10..5}", "00 05 10"),
        ("{10..0..5}", "10 5 0"),
        ("x{a,b}{1..2}y", "xa1y xa2y xb1y xb2y"),
        ("{a}", "{a}"),
        ("{,x}.tar", ".tar x.tar"),
    ],
)
def test_braces_are_written_out_as_bash_does(pattern, names):
    assert expand(pattern) == names.split()


def test_the_name_of_a_file_may_look_like_a_pattern(tmp_path):
    for name in ("a[1].tar", "a1.tar"):
        (tmp_path / name).touch()
    assert _found(str(tmp_path), "a[1].tar") == [str(tmp_path / "a[1].tar")]
    assert _found(str(tmp_path), "a[12].tar") == [str(tmp_path / "a1.tar")]
    assert _found(str(tmp_path), "gone.tar") == [str(tmp_path / "gone.tar")]
    assert _found(str(tmp_path), "gone*.tar") == []
