"""metrics.csv is there as a whole at every moment."""

import csv

import pytest

from vit_lightning.loggers import MetricsCSV


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
