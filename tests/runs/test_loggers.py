"""metrics.csv is there as a whole at every moment."""

import csv
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vit_lightning.cli.vit_cli import ViTCLI
from vit_lightning.errors import InputError
from vit_lightning.runs.loggers import MetricsCSV, TensorBoard, flat


def rows(folder) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_kill_while_a_column_is_added_loses_no_row(tmp_path, monkeypatch):
    logger = MetricsCSV(tmp_path)
    logger.log_metrics({"a": 1.0}, step=0)
    logger.save()
    logger.log_metrics({"b": 2.0}, step=1)
    monkeypatch.setattr(csv.DictWriter, "writerows", lambda *words: 1 / 0)  # where the process is killed
    with pytest.raises(ZeroDivisionError):
        logger.save()
    assert [(row["step"], row["a"]) for row in rows(tmp_path)] == [("0", "1.0")]


def test_a_new_column_keeps_the_rows_before_it(tmp_path):
    logger = MetricsCSV(tmp_path)
    for step, name in enumerate("ab"):
        logger.log_metrics({name: step + 1.0}, step=step)
        logger.save()
    assert [(row["step"], row["a"], row["b"]) for row in rows(tmp_path)] == [("0", "1.0", ""), ("1", "", "2.0")]


@pytest.mark.parametrize("cut", range(2, 30))
def test_a_row_that_was_cut_is_left_out(tmp_path, cut):
    logger = MetricsCSV(tmp_path)
    for step in range(3):
        logger.log_metrics({"train/loss": step + 0.5, "zeal": 12345.678}, step=step)
        logger.save()
    path = tmp_path / "metrics.csv"
    path.write_bytes(path.read_bytes()[:-cut])
    resumed = MetricsCSV(tmp_path, resume_step=3)
    resumed.log_metrics({"train/loss": 3.5, "new": 1.0}, step=3)
    resumed.save()
    steps = [int(row["step"]) for row in rows(tmp_path)]
    assert steps in ([0, 1, 3], [0, 3]) and rows(tmp_path)[0]["zeal"] == "12345.678"


def test_rows_with_too_few_or_too_many_cells_are_left_out(tmp_path):
    """What lies in a log after a disk was full amid a row; its columns may stand in any order."""
    (tmp_path / "metrics.csv").write_text("step,a,b\n1,0.5,2.0\n2,0.2\n3,0.5,4,0.25,2.0\n4\n5,0.125,\n")
    logger = MetricsCSV(tmp_path, resume_step=9)
    logger.log_metrics({"a": 1.0}, step=9)
    logger.save()
    found = [(row["step"], row["a"], row["b"]) for row in rows(tmp_path)]
    assert found == [("1", "0.5", "2.0"), ("5", "0.125", ""), ("9", "1.0", "")]


@pytest.mark.parametrize("content", [b"x,y\n\0\xff", b"", b"a,step\n1,2,3\n4,5\n", b"\xff\xfe\0"])
def test_a_log_that_is_none_blocks_no_run(tmp_path, content):
    (tmp_path / "metrics.csv").write_bytes(content)
    logger = MetricsCSV(tmp_path, resume_step=9)
    logger.log_metrics({"a": 1.0}, step=9)
    logger.save()
    assert rows(tmp_path)[-1]["a"] == "1.0" and rows(tmp_path)[-1]["step"] == "9"


def test_both_logs_of_a_resumed_run_are_cut_back_to_where_it_goes_on(tmp_path):
    """Of a run of eight steps that goes on from its fifth, what came after that is shown once."""
    for trained, steps in (({}, range(8)), ({"global_step": 5}, range(5, 7))):
        loggers = ViTCLI._loggers(SimpleNamespace(trained=trained, folder=tmp_path, _placed=lambda folder: []), True)
        for logger in loggers:
            for step in steps:
                logger.log_metrics({"loss": step + len(trained) / 2}, step=step)
            logger.finalize("success")
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("loss")
    expected = [(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.5), (6, 6.5)]
    assert [(event.step, event.value) for event in shown] == expected
    assert [(int(row["step"]), float(row["loss"])) for row in rows(tmp_path)] == expected


def test_a_folder_that_was_removed_is_said_and_nothing_waits_for_it(tmp_path):
    """Its thread ends with the folder: a flush would wait for it without end."""
    logger = TensorBoard(tmp_path / "0", name="", version="tensorboard")
    logger.log_metrics({"train/loss": 1.0}, 0)
    logger.save()
    shutil.rmtree(tmp_path / "0")
    with pytest.raises(InputError, match=f"the run folder {tmp_path / '0'} was removed or moved while"):
        logger.log_metrics({"train/loss": 1.0}, 1)
    logger.save()
    logger.finalize("failed")
    assert not (tmp_path / "0").exists()


def test_settings_are_flat_and_plain():
    settings = {"model": {"lr": 0.5, "net": {"depth": 3, "on": True}, "none": None, "pair": (8, 16)}, "text": "x"}
    assert flat(settings) == {
        **{"model.lr": 0.5, "model.net.depth": 3, "model.net.on": True, "model.none": "None"},
        **{"model.pair": "(8, 16)", "text": "x"},
    }


def test_a_log_goes_on_below_the_rows_of_earlier_steps(tmp_path):
    logger = MetricsCSV(tmp_path)
    for step in (0, 4, 5, 9, 10):
        logger.log_metrics({"a": float(step)}, step=step)
    logger.save()
    resumed = MetricsCSV(tmp_path, resume_step=5)
    resumed.log_metrics({"a": 0.5, "b": 1.0}, step=5)
    resumed.save()
    resumed.log_metrics({"a": 0.75}, step=6)
    resumed.save()
    assert [(row["step"], row["a"], row["b"]) for row in rows(tmp_path)] == [
        ("0", "0.0", ""),
        ("4", "4.0", ""),
        ("5", "0.5", "1.0"),
        ("6", "0.75", ""),
    ]
    assert Path(resumed.log_dir) == tmp_path


def test_tensorboard_opens_no_file_before_something_is_logged(tmp_path):
    board = TensorBoard(tmp_path, name="", version="tensorboard")
    assert board.experiment.add_scalar is not None and not (tmp_path / "tensorboard").exists()
    board.log_hyperparams({"model": {"lr": 0.5}}, {"val/top1": 0.0})
    board.log_metrics({"loss": 2.0}, step=3)
    board.finalize("success")
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in shown.Scalars("loss")] == [(3, 2.0)]
