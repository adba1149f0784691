"""What a cell's run depends on beside its words: the files that they name."""

from pathlib import Path

import pytest

from vit_lightning.commands.sweep import run
from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.commands.sweep.run import Record, check_unchanged
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "x.yaml"],
        ["--config", "x.yaml"],
        ["--config=x.yaml"],
        ["--trainer", "x.yaml"],
        ["--data=x.yaml"],
        ["--config", "x"],
    ],
)
def test_a_file_that_changed_is_named_however_it_is_given(tmp_path, monkeypatch, words):
    name = words[-1].rpartition("=")[2]
    monkeypatch.chdir(tmp_path)
    cell = Cell("rates", {"rate": "0.1"}, [["fit", *words, "--data.root", "photos.yaml"]])
    (tmp_path / "photos.yaml").write_text("- no config, but data\n")
    (tmp_path / name).write_text("lr: 1  # a note\n")
    (tmp_path / "runs" / cell.place).mkdir(parents=True)
    Record(cell.lines, done=1, files=run._digests(cell)).write(tmp_path / "runs" / cell.place)
    (tmp_path / name).write_text("lr:   1\n")
    assert check_unchanged(cell, tmp_path / "runs").done == 1
    (tmp_path / name).write_text("lr: 2\n")
    with pytest.raises(InputError, match=f"ran with another {name} than there is now; remove"):
        check_unchanged(cell, tmp_path / "runs")


def test_a_fit_that_was_asked_to_end_is_not_done_though_it_ended_well(tmp_path):
    """As by scancel of its process alone: it saves its state, and ends with status 0."""
    cell, said = Cell("rates", {"rate": "0.1"}, [["fit", "--rate", "0.1"]]), ["stopped by a signal at optimiser step 7"]

    def call(words: list[str], log: Path, lock: int) -> int:
        with log.open("a") as output:
            print("\n".join(said), file=output)
        return 0

    assert run.run(cell, tmp_path, call).state == "stopped"
    assert not run.is_finished(cell, run.read_record(tmp_path / cell.place))
    said[:] = ["run      runs/0"]
    assert run.run(cell, tmp_path, call).state == "finished"
    assert run.is_finished(cell, run.read_record(tmp_path / cell.place))
