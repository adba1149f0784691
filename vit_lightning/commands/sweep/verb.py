"""The verb `sweep`: all runs of a plan, several at once, and what came out of them."""

import re
import shlex
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vit_lightning.commands.sweep.children import Children
from vit_lightning.commands.sweep.figure import check_installed, draw, missing_metric
from vit_lightning.commands.sweep.plan import Cell, SweepPlan, read_plan
from vit_lightning.commands.sweep.progress import SweepProgress
from vit_lightning.commands.sweep.results import main_metric, read_row, read_rows, table, write_results
from vit_lightning.commands.sweep.run import Outcome, check_unchanged, check_words, command, is_finished, run
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.files import check_place, unwritable
from vit_lightning.terminal import console, counted, report


def sweep(
    plans: list[str],
    jobs: int = 1,
    shard: str = "1/1",
    runs: Path = Path("runs"),
    results: Path = Path("results"),
    set: list[str] | None = None,
    dry_run: bool = False,
) -> None:
    """Run every combination of a plan's axes, and make tables and figures of what came out.

    A plan is a YAML file; its name is the sweep's:

        fit: -c experiments/digits.yaml --data.root {DATA}   # what every run begins with; --set DATA=FOLDER
        then: [test --ckpt_path best]                        # what follows each of them
        over:
          rate: {low: --model.optim.lr 1e-4, high: --model.optim.lr 1e-3 --model.schedule.warmup_steps 100}
          --seed_everything: [0, 1, 2]
        figure: {x: rate, y: test/top1, spread: seed_everything}    # also line, xscale, yscale, title; or a list

    Each run has a folder of its own, RUNS/<plan>/rate=low,seed_everything=0, for its log and for
    <experiment>/0/checkpoints; another plan finds it as {RUNS}/<plan>/..., with the label of an axis as {rate}. The
    words of a label may depend on another axis: low: {0: --model.optim.lr 1e-4, 1: ..., 2: ...}. Called again, a sweep
    goes on: what is finished is left alone, what was interrupted goes on from its last state. RESULTS gets <plan>.csv
    with a row per run, <plan>.curves.csv and <plan>.svg.

    Example: python -m vit_lightning sweep experiments/sweeps/digits_lr.yaml --jobs 2

    Args:
        plans: Plans.
        jobs: Runs at once; with several, each takes one of the GPUs that are visible.
        shard: i/n: of n parts of the runs, the i-th alone, for job arrays; every part writes what all have found.
        runs: Folder of the runs.
        results: Folder for tables and figures.
        set: NAME=VALUE ...: values of the plans' placeholders.
        dry_run: Only check the words of the commands that are left to do, and show them.
    """
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: expected 1 or more")
    part, parts = _shard(shard)
    for name, folder in (("runs", runs), ("results", results)):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--{name} {folder} is a file; give a folder")
    read = _plans(plans, _given(set or []), runs)
    records = [(cell, check_unchanged(cell, runs)) for plan in read for cell in plan.cells]
    mine = records[part - 1 :: parts]
    left = [cell for cell, record in mine if not is_finished(cell, record)]
    report(f"{counted(len(mine), 'run')}{f' of shard {shard}' * (parts > 1)}, {len(mine) - len(left)} finished before")
    if dry_run:
        check_words(left, report)
        _show_commands(left, runs)
        return
    if any(plan.figures for plan in read):
        check_installed()
    for folder in (runs, results):
        _make_folder(folder)
    for plan in read:
        check_place(results / f"{plan.name}.csv", "--results")
    children = Children(jobs)
    outcomes = _run(left, read, runs, children, jobs)
    _write_tables_and_figures(read, runs, results)
    _exit(outcomes, children.received, runs)


def _run(cells: list[Cell], plans: list[SweepPlan], runs: Path, children: Children, jobs: int) -> list[Outcome]:
    known = {plan.name: (plan, read_rows(plan, runs)) for plan in plans}
    with children.listening(), SweepProgress(len(cells)) as progress, ThreadPoolExecutor(jobs) as pool:

        def one(cell: Cell) -> Outcome:
            if children.received:
                return Outcome(cell, "stopped")
            plan, rows = known[cell.plan]
            for figure in plan.figures if rows else []:
                progress.warn(missing_metric(figure, plan, rows))  # now, not after hours of runs
            progress.began(cell)
            outcome, score = run(cell, runs, children.call), ""
            if outcome.state == "finished":
                row = read_row(cell, runs)
                rows.append(row)
                metric = main_metric(plan, [row])
                score = f"{metric} {row.metrics[metric]:.4g}" if metric else ""
            progress.ended(outcome, score)
            return outcome

        return list(pool.map(one, cells))


def _write_tables_and_figures(plans: list[SweepPlan], runs: Path, results: Path) -> None:
    """Write tables and figures of all that is finished, by this sweep or another."""
    rows = {plan.name: read_rows(plan, runs) for plan in plans}
    done = [plan for plan in plans if rows[plan.name]]
    for plan in done:
        write_results(plan, rows[plan.name], results)
        console().print(table(plan, rows[plan.name]))
        report(f"results  {results / plan.name}.csv")
    for plan in done:
        for number, figure in enumerate(plan.figures, 1):
            path = results / f"{plan.name}{f'-{number}' * (number > 1)}.svg"
            draw(figure, plan, rows[plan.name], path)
            report(f"figure   {path}")


def _exit(outcomes: list[Outcome], received: int | None, runs: Path) -> None:
    """Say what failed and what is left; leave with the status that says so too."""
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    stopped = [outcome for outcome in outcomes if outcome.state == "stopped"]
    elsewhere = [outcome.cell for outcome in outcomes if outcome.state == "elsewhere"]
    elsewhere = [cell for cell in elsewhere if not is_finished(cell, check_unchanged(cell, runs))]
    for outcome in failed:
        print(f"failed   {outcome.cell.place}: {outcome.reason}", file=sys.stderr)
    if failed:
        print(f"error: {len(failed)} of {counted(len(outcomes), 'run')} failed", file=sys.stderr)
    if stopped:
        remain = f"{counted(len(stopped), 'run')} remain{'s' * (len(stopped) == 1)}"
        print(f"{remain}; the same command goes on with them", file=sys.stderr)
    if elsewhere:
        print(
            f"{len(elsewhere)} of {len(outcomes)} runs are under way elsewhere and missing here; "
            "the same command takes them up when they have ended",
            file=sys.stderr,
        )
    if received or failed or stopped or elsewhere:
        sys.exit(128 + received if received else 1)


def _plans(paths: list[str], given: dict[str, str], runs: Path) -> list[SweepPlan]:
    read = [read_plan(Path(path), given, runs) for path in paths]
    names = [plan.name for plan in read]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two plans are called {twice}, which is the name of their folder; rename one")
    filled = {name for plan in read for name in plan.filled}
    if idle := next((name for name in given if name not in filled), None):
        raise InputError(f"--set {idle}: no plan has {{{idle}}} to fill{did_you_mean(idle, filled)}")
    return read


def _given(words: Iterable[str]) -> dict[str, str]:
    pairs = [(word, *word.partition("=")) for word in words]
    if (wrong := next((word for word, name, sign, _ in pairs if not name or not sign), None)) is not None:
        raise InputError(f"--set {wrong}: expected NAME=VALUE, such as DATA=/data/cifar10")
    return {name: value for _, name, _, value in pairs}


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= part <= parts:
        raise InputError(f"--shard {text}: expected i/n with i from 1 to n, such as 1/4")
    return part, parts


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error


def _show_commands(cells: list[Cell], runs: Path) -> None:
    for cell in cells:
        print(f"# {cell.place}")
        for number in range(check_unchanged(cell, runs).done, len(cell.lines)):
            print(shlex.join(["python", *command(cell, number, runs)[1:]]))
