"""Files of scores are called by their verb, and by a number for other nets or data."""

import json
from pathlib import Path

import pytest

from vit_lightning.callbacks.score_names import stem

SOURCE = {"root": "/a", "data": "x"}


def put(folder: Path, name: str, members: tuple[str, ...] = (), **facts: object) -> None:
    nets = {"members": [{"checkpoint": one} for one in members]} if members else {}
    (folder / f"{name}.json").write_text(json.dumps(nets | facts))


def test_the_run_s_own_data_keep_their_verb(tmp_path):
    put(tmp_path, "test", source={"root": "/b"})
    assert stem(tmp_path, "test", (), SOURCE, is_own=True) == "test"


def test_other_data_have_the_first_number_that_is_free_or_theirs(tmp_path):
    assert stem(tmp_path, "test", (), SOURCE, is_own=False) == "test-2"
    put(tmp_path, "test-2", source={"root": "/b", "data": "x"})
    put(tmp_path, "test-3", ("a.ckpt",), source=SOURCE)
    assert stem(tmp_path, "test", (), SOURCE, is_own=False) == "test-4"
    put(tmp_path, "test-4", source=SOURCE)
    put(tmp_path, "test-5", source=SOURCE)
    assert stem(tmp_path, "test", (), SOURCE, is_own=False) == "test-4"
    assert stem(tmp_path, "validate", (), SOURCE, is_own=False) == "validate-2"


def test_nets_that_answer_together_are_numbered_apart(tmp_path):
    nets = ("a.ckpt", "b.ckpt")
    assert stem(tmp_path, "test", nets, SOURCE, is_own=True) == "test.mean"
    assert stem(tmp_path, "test", nets, SOURCE, is_own=False) == "test.mean-2"
    put(tmp_path, "test.mean", nets[::-1], source=SOURCE)
    assert stem(tmp_path, "test", nets, SOURCE, is_own=True) == "test.mean-2"
    put(tmp_path, "test.mean-2", nets, source=SOURCE)
    assert stem(tmp_path, "test", nets, SOURCE, is_own=True) == "test.mean-2"
    put(tmp_path, "test.mean", nets)
    assert stem(tmp_path, "test", nets, {}, is_own=True) == "test.mean"


@pytest.mark.parametrize("content", ["", "[]", '{"members": [1]}', '{"members": [{}]}', '{"source": 3}', None])
def test_what_is_no_file_of_scores_is_left(tmp_path, content):
    if content is None:
        (tmp_path / "test-2.json").mkdir()
    else:
        (tmp_path / "test-2.json").write_text(content)
    assert stem(tmp_path, "test", (), SOURCE, is_own=False) == "test-3"
