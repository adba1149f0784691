"""Every run of a plan has a row in its results, which says how it ended; what failed is counted of the whole plan."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vit_lightning.commands.sweep import run
from vit_lightning.commands.sweep import verb as module
from vit_lightning.commands.sweep.plan import Cell, SweepPlan
from vit_lightning.commands.sweep.results import unfinished_rows
from vit_lightning.commands.sweep.run import Outcome, Record

LINES = [["fit", "--x", "1"], ["test"]]


def sweep_plan(*labels: str) -> SweepPlan:
    cells = [Cell("rates", {"rate": label}, LINES) for label in labels]
    return SweepPlan("rates", {"rate": list(labels)}, cells, [], frozenset())


def statuses(plan: SweepPlan, runs: Path, outcomes: tuple[Outcome, ...] = ()) -> dict[str, tuple[str, str]]:
    lines = unfinished_rows(plan, runs, outcomes).values()
    return {line["rate"]: (line["status"], line["error"]) for line in lines}


@pytest.mark.parametrize(
    ("record", "status", "error"),
    [
        (None, "waiting", ""),
        (Record(LINES[:1], ended="failed", error="too bold; see log"), "failed", "too bold; see log"),
        (Record(LINES[:1]), "stopped", ""),
        (Record(LINES, done=1, ended="failed", error="no disk"), "failed", "no disk"),
        (Record(LINES[:1], done=1, ended="finished"), "waiting", ""),  # the plan has got a further line
        (Record([["fit", "--x", "2"]], ended="failed", error="of other words"), "waiting", ""),
    ],
)
def test_a_run_without_scores_has_a_row_that_says_how_it_ended(tmp_path, record, status, error):
    plan = sweep_plan("1", "2")
    for cell, left in zip(plan.cells, (record, Record(LINES, done=2, ended="finished")), strict=True):
        (tmp_path / cell.place).mkdir(parents=True)
        if left:
            left.write(tmp_path / cell.place)
    assert statuses(plan, tmp_path) == {"1": (status, error)}


def test_what_could_not_begin_has_failed(tmp_path):
    plan = sweep_plan("1", "2")
    outcomes = (Outcome(plan.cells[1], "failed", reason="no folder"), Outcome(plan.cells[0], "elsewhere"))
    assert statuses(plan, tmp_path, outcomes) == {"1": ("waiting", ""), "2": ("failed", "no folder")}


@pytest.mark.parametrize(
    ("code", "text", "state", "error"),
    [
        (1, "error: too bold", "failed", "too bold; see {log}"),
        (0, "", "finished", ""),
        (None, "", "stopped", ""),
        (0, run.STOPPED, "stopped", ""),
    ],
)
def test_the_record_keeps_how_a_run_ended(tmp_path, code, text, state, error):
    cell = Cell("rates", {"rate": "1"}, LINES[:1])

    def call(words: list[str], log: Path, lock: int) -> int | None:
        log.write_text(text)
        return code

    outcome = run.run(cell, tmp_path, call)
    record, error = run.read_record(tmp_path / cell.place), error.format(log=tmp_path / cell.place / run.LOG)
    assert (outcome.state, outcome.reason) == (record.ended, record.error) == (state, error)


def test_a_record_without_a_status_is_readable(tmp_path):
    (tmp_path / run.RECORD).write_text('{"lines": [["fit"]], "done": 1, "seconds": 2.0, "date": "2026-01-02"}')
    assert run.read_record(tmp_path).done == 1


def test_failures_are_counted_of_the_whole_plan(tmp_path, capsys):
    outcomes = [Outcome(cell, "failed", reason="why") for cell in sweep_plan("1", "2").cells]
    with pytest.raises(SystemExit):
        module._exit(outcomes, None, tmp_path, 6)
    assert capsys.readouterr().err.splitlines()[-1] == "error: 2 of 6 runs failed"


def test_a_plan_whose_runs_all_failed_has_its_rows_too(tmp_path):
    plan = sweep_plan("1")
    module._write_tables_and_figures([plan], tmp_path, tmp_path, [])
    assert not (tmp_path / "rates.csv").exists()
    module._write_tables_and_figures([plan], tmp_path, tmp_path, [Outcome(plan.cells[0], "failed", reason="why")])
    header, line = (tmp_path / "rates.csv").read_text().splitlines()
    assert header.endswith(",status,error") and line.startswith("1,") and line.endswith(",failed,why")


def test_the_first_line_of_a_sweep_waits_for_no_import_of_torch(tmp_path):
    """Under load that of Lightning takes half a minute, in which nothing would be said."""
    (tmp_path / "rates.yaml").write_text("fit: --x 1\nover: {rate: {a: --y 1, b: --y 2}}\n")
    code = (
        "import sys\nfrom vit_lightning.cli import run\nfrom vit_lightning.commands.sweep import verb\n"
        "def report(line):\n"
        "    print(line, [name for name in ('torch', 'lightning') if name in sys.modules])\n    sys.exit()\n"
        "verb.report = report\nrun.run(['sweep', 'rates.yaml', '--jobs', '2'])"
    )
    path = os.pathsep.join(filter(None, (str(Path(module.__file__).parents[3]), os.environ.get("PYTHONPATH"))))
    env = os.environ | {"PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "plan     rates: 2 runs, 0 finished before, 2 at once []\n", done.stderr
