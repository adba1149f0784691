"""A cell whose log is not what its run wrote is named, and never read in part."""

import pytest

from vit_lightning.commands.sweep.results import _origin, _read
from vit_lightning.errors import InputError

LOG = b"epoch,step,val/top1\n0,9,0.1\n1,19,0.25\n"


def test_empty_fields_are_left_out(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_bytes(LOG + b"2,29,\n")
    assert _read(path, tmp_path)[1:] == [{"epoch": 1, "step": 19, "val/top1": 0.25}, {"epoch": 2, "step": 29}]


@pytest.mark.parametrize(
    "content", [LOG[:-1], LOG[:-5], LOG + b"2,29\n", LOG + b"\xff", LOG + b"2,29,x\n", b"\xff\xfe"]
)
def test_a_damaged_log_is_one_sentence(tmp_path, content):
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"metrics.csv is damaged \(.*\); remove .* to run the cell anew"):
        _read(path, tmp_path)


@pytest.mark.parametrize("content", [None, "", "[]", '{"versions": {}}'])
def test_a_lost_record_of_the_machine_is_one_sentence(tmp_path, content):
    run = tmp_path / "scratch" / "0"
    run.mkdir(parents=True)
    if content is not None:
        (run / "env.json").write_text(content)
    with pytest.raises(InputError, match=r"has lost its env.json or log.txt; remove it to run the cell anew"):
        _origin(tmp_path)
