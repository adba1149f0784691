"""Ranges as long as they may be, blanks around patterns, and tars beside those that train."""

import pytest

from datamodules.reading import tar_patterns
from datamodules.reading.tar_patterns import expand, matching, other_tars
from vit_lightning.errors import InputError


@pytest.mark.parametrize("pattern", ["{0..3}", "{3..0}", "{0..6..2}", "{7..0..2}"])
def test_a_range_may_have_as_many_names_as_the_limit_says(monkeypatch, pattern):
    monkeypatch.setattr(tar_patterns, "MOST", 4)
    assert len(expand(pattern)) == 4
    monkeypatch.setattr(tar_patterns, "MOST", 3)
    with pytest.raises(InputError, match="stands for more than 3 names; give a shorter range"):
        expand(pattern)


def test_blanks_around_a_pattern_do_not_matter(tmp_path):
    for name in ("a-0.tar", "a-1.tar", "b.tar"):
        (tmp_path / name).touch()
    found = matching(str(tmp_path), " a-{0..1}.tar :: b.tar ")
    assert found == [str(tmp_path / name) for name in ("a-0.tar", "a-1.tar", "b.tar")]


def test_of_tars_beside_those_that_train_only_others_are_told(tmp_path):
    """One that is called as those of a test may train all the same."""
    for name in ("train-0.tar", "test-0.tar", "test-1.tar", "test-2.tar.gz", "val-0.tgz", "test-3.zip", "notes.tar"):
        (tmp_path / name).touch()
    train = [str(tmp_path / name) for name in ("train-0.tar", "test-0.tar")]
    assert other_tars(str(tmp_path), train, ["val", "test"]) == [
        f"{tmp_path}/test-1.tar is not read (2 such tars); give --data.test 'test-*.tar' if it holds test images",
        f"{tmp_path}/val-0.tgz is not read (1 such tars); give --data.val 'val-*.tgz' if it holds val images",
    ]
    assert [said.partition(" ")[0] for said in other_tars(str(tmp_path), train, ["val"])] == [f"{tmp_path}/val-0.tgz"]
    assert other_tars(str(tmp_path), train, []) == []


def test_of_remote_tars_nothing_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "s3:/bucket"
    folder.mkdir(parents=True)
    (folder / "val-0.tar").touch()
    assert other_tars("s3://bucket", ["s3://bucket/train-0.tar"], ["val"]) == []
