"""The verb `sweep`: all runs of a plan, several at once, and what came out of them."""

import shlex
import sys
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vit_lightning.commands.sweep.children import Children
from vit_lightning.commands.sweep.choice import doubted, settled, undecided, unlogged
from vit_lightning.commands.sweep.figure import check_installed, draw, draw_groups, missing_metric
from vit_lightning.commands.sweep.plan import Cell, SweepPlan, read_plan
from vit_lightning.commands.sweep.progress import SweepProgress
from vit_lightning.commands.sweep.refusals import refusals
from vit_lightning.commands.sweep.results import (
    SweepRow,
    main_metric,
    read_row,
    read_rows,
    said,
    table,
    unfinished_rows,
    write_results,
)
from vit_lightning.commands.sweep.run import Outcome, State, check_unchanged, check_words, command, is_finished, run
from vit_lightning.commands.sweep.shards import dealt, picked, shard_of
from vit_lightning.commands.sweep.task_files import shown_task_table, write_task_table
from vit_lightning.commands.sweep.task_scores import net_rows, split_facts
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.files import check_place, unwritable
from vit_lightning.terminal import console, counted, report


def sweep(
    plans: list[str],
    jobs: int = 1,
    shard: str = "1/1",
    only: list[str] | None = None,
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

    A figure over cost/exaflops may hold `published: compute/TASK`, the paper's table 6 (figure 5); one over an axis
    called images `published: transfer/TASK`, its table 5 (figure 3). Tasks are imagenet, cifar10 and so on, or average.

    With choose, a plan has two stages. The first trains every setting with images held out, with the first seed. The
    second trains the best setting of each task on all images, with every seed, and tests it once, after the last epoch:

        choose: {by: val/top1, fit: --data.split train800, over: {--model.optim.lr: [0.01, 0.1]}}
        over: {task: {dtd: --data.task dtd, pets: --data.task pets}, --seed_everything: [0, 1, 2]}
        then: [test --ckpt_path last]
        table: {tasks: task, y: test/top1, groups: {natural: [dtd, pets]}, published: vtab}

    The words of choose, fit go to the first stage alone, whose runs lie in RUNS/<plan>.choose. `per: []` under choose
    takes one setting for all tasks, by the mean of the metric. A table has a column per task, averages of groups, and
    published rows; `also: {real: imagenet test/real}` adds another metric, `plans: {vtab: vtab}` another plan's mean.

    Each run has a folder of its own, RUNS/<plan>/rate=low,seed_everything=0, for its log and for
    <experiment>/0/checkpoints; another plan finds it as {RUNS}/<plan>/..., with the label of an axis as {rate}. The
    words of a label may depend on another axis: low: {0: --model.optim.lr 1e-4, 1: ..., 2: ...}. Called again, a sweep
    goes on: what is finished is left alone, what was interrupted goes on from its last state. RESULTS gets <plan>.csv
    with a row and a status per run, and <plan>.curves.csv; of a figure <plan>.svg, and <plan>-2.svg of a second one; of
    a table <plan>.table.csv, .json and .md, and <plan>.table.svg where it has averages.

    Example: python -m vit_lightning sweep experiments/sweeps/digits_lr.yaml --jobs 2

    Args:
        plans: Plans.
        jobs: Runs at once; with several, each takes one of the GPUs that are visible.
        shard: i/n: of n parts of the runs, the i-th alone, for job arrays; every part writes what all have found.
        only: AXIS=LABEL,LABEL ...: the runs with these labels alone, such as task=dtd,pets; others stay as they are.
        runs: Folder of the runs.
        results: Folder for tables and figures.
        set: NAME=VALUE ...: values of the plans' placeholders.
        dry_run: Only check the words of the commands that are left to do, show them, and plan each fit, which finds
            what it would be refused for before its first step.
    """
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: expected 1 or more")
    part, parts = shard_of(shard)
    for name, folder in (("runs", runs), ("results", results)):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--{name} {folder} is a file; give a folder")
    read = _plans(plans, _given(set or []), runs)
    mine = dealt(read, part, parts) & picked(read, only or [])
    first = [plan.choice.plan if plan.choice else plan for plan in read]
    choosing = [plan for plan in read if plan.choice]
    left, finished = _left(first, mine, runs)
    chosen, finished_then = _left([settled(plan, runs) for plan in choosing], mine, runs)
    waiting = _waiting(choosing, mine, runs, "waiting")
    count, before = len(left) + len(chosen) + len(waiting), finished + finished_then
    of = f"{counted(count + before, 'run')}{f' of shard {shard}' * (parts > 1)}"
    report(f"plan     {', '.join(plan.name for plan in read)}: {of}, {before} finished before, {jobs} at once")
    for sentence in filter(None, map(doubted, choosing)):
        report(f"warning  {sentence}")
    if dry_run:
        check_words([*left, *chosen, *(outcome.cell for outcome in waiting)], report)
        _show_commands([*left, *chosen], runs)
        for outcome in waiting:
            print(f"# {outcome.cell.place}, or with another setting: {outcome.reason}")
        _plan_fits([cell for cell in (*left, *chosen) if not check_unchanged(cell, runs).done], runs)
        return
    if any(plan.figures for plan in read):
        check_installed()
    for folder in (runs, results):
        _make_folder(folder)
    for plan in [*first, *choosing]:
        check_place(results / f"{plan.name}.csv", "--results")
    children = Children(jobs)
    outcomes = _run(left, first, runs, children, jobs)
    second = [settled(plan, runs) for plan in choosing]
    if second:
        outcomes += _run(_left(second, mine, runs)[0], second, runs, children, jobs)
    outcomes += _waiting(choosing, mine, runs, "stopped" if children.received else "waiting")
    _write_tables_and_figures([*first, *second], runs, results, outcomes)
    _write_task_tables([settled(plan, runs) for plan in read if plan.table], runs, results)
    _exit(outcomes, children.received, runs, count + before)


def _plan_fits(cells: list[Cell], runs: Path) -> None:
    """Say which fits would be refused, and leave with the status that says so too."""
    found = refusals(cells, runs, report)
    if found.unready:
        report(f"unknown  {counted(len(found.unready), 'fit')} cannot be planned before another run has ended")
    for place, why in found.refused.items():
        print(f"refused  {place}: {why}", file=sys.stderr)
    if found.refused:
        print(f"error: {len(found.refused)} of {counted(len(cells), 'fit')} would be refused", file=sys.stderr)
        sys.exit(1)


def _left(plans: list[SweepPlan], mine: Collection[str], runs: Path) -> tuple[list[Cell], int]:
    """The runs of this part that are left to do, and how many were finished before."""
    records = [(cell, check_unchanged(cell, runs)) for plan in plans for cell in plan.cells]
    done = {cell.place: is_finished(cell, record) for cell, record in records if cell.place in mine}
    return [cell for cell, _ in records if not done.get(cell.place, True)], sum(done.values())


def _waiting(plans: list[SweepPlan], mine: Collection[str], runs: Path, state: State) -> list[Outcome]:
    """Runs of this part that cannot begin before others have ended."""
    cells = [pair for plan in plans for pair in undecided(plan, runs) if pair[0].place in mine]
    return [Outcome(cell, state, reason=reason) for cell, reason in cells]


def _run(cells: list[Cell], plans: list[SweepPlan], runs: Path, children: Children, jobs: int) -> list[Outcome]:
    known = {plan.name: (plan, read_rows(plan, runs)) for plan in plans}
    with children.listening(), SweepProgress(len(cells), runs) as progress, ThreadPoolExecutor(jobs) as pool:

        def one(cell: Cell) -> Outcome:
            if children.received:
                return Outcome(cell, "stopped")
            plan, rows = known[cell.plan]
            progress.began(cell)
            outcome, score = run(cell, runs, children.call), ""
            if outcome.state == "finished":
                row = read_row(cell, runs)
                rows.append(row)
                metric = main_metric(plan, [row])
                score = f"{metric} {said(metric, row.metrics[metric])}" if metric else ""
            progress.ended(outcome, score)
            for sentence in _doubts(plan, rows) if rows else []:
                progress.warn(sentence)
            return outcome

        return list(pool.map(one, cells))


def _doubts(plan: SweepPlan, rows: list[SweepRow]) -> Iterator[str | None]:
    """What the rows so far say against the plan, not only after hours of runs."""
    for figure in plan.figures:
        yield missing_metric(figure, plan, rows)
    if plan.by:
        yield unlogged(plan, rows)
    if plan.choice and (held := next((name for name in rows[0].metrics if name.startswith("val/")), None)):
        yield f"the runs of plan {plan.name} hold images out: they log {held}; let fit train on all of them"


def _write_tables_and_figures(plans: list[SweepPlan], runs: Path, results: Path, outcomes: list[Outcome]) -> None:
    """Write a row of every run, and tables and figures of all that is finished, by this sweep or another."""
    rows = {plan.name: read_rows(plan, runs) for plan in plans}
    for plan in plans:
        unfinished = unfinished_rows(plan, runs, outcomes)
        if not rows[plan.name] and all(line["status"] != "failed" for line in unfinished.values()):
            continue
        write_results(plan, rows[plan.name], results, unfinished)
        if rows[plan.name]:
            console().print(table(plan, rows[plan.name]))
        report(f"results  {results / plan.name}.csv")
    for plan in (plan for plan in plans if rows[plan.name]):
        for number, figure in enumerate(plan.figures, 1):
            path = results / f"{plan.name}{f'-{number}' * (number > 1)}.svg"
            draw(figure, plan, rows[plan.name], path)
            report(f"figure   {path}")


def _write_task_tables(plans: list[SweepPlan], runs: Path, results: Path) -> None:
    """Write tables by task, those first from which others take a column."""
    for plan in sorted(plans, key=lambda plan: bool(plan.table and plan.table.plans)):
        second, first = read_rows(plan, runs), read_rows(plan.choice.plan, runs) if plan.choice else []
        if not second:
            continue
        nets = net_rows(plan, second, results)
        write_task_table(plan, nets, split_facts(plan, first, second, runs), results)
        console().print(shown_task_table(plan, nets))
        for row in nets:
            if row.missing:
                report(f"missing  {row.net}: {', '.join(row.missing)}")
        report(f"table    {results / plan.name}.table.md, .csv, .json")
        if drawn := draw_groups(plan, nets, results / f"{plan.name}.table.svg"):
            report(drawn)


def _exit(outcomes: list[Outcome], received: int | None, runs: Path, total: int) -> None:
    """Say what failed of `total` runs and what is left; leave with the status that says so too."""
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    stopped = [outcome for outcome in outcomes if outcome.state == "stopped"]
    elsewhere = [outcome.cell for outcome in outcomes if outcome.state == "elsewhere"]
    elsewhere = [cell for cell in elsewhere if not is_finished(cell, check_unchanged(cell, runs))]
    for outcome in failed:
        print(f"failed   {outcome.cell.place}: {outcome.reason}", file=sys.stderr)
    waiting = [outcome for outcome in outcomes if outcome.state == "waiting"]
    if failed:
        print(f"error: {len(failed)} of {counted(total, 'run')} failed", file=sys.stderr)
    if stopped:
        remain = f"{counted(len(stopped), 'run')} remain{'s' * (len(stopped) == 1)}"
        print(f"{remain}; the same command goes on with them", file=sys.stderr)
    if elsewhere:
        print(
            f"{len(elsewhere)} of {counted(total, 'run')} are under way elsewhere and missing here; "
            "the same command takes them up when they have ended",
            file=sys.stderr,
        )
    if waiting:
        remain = f"{counted(len(waiting), 'run')} wait{'s' * (len(waiting) == 1)} for the choice of a setting"
        print(f"{remain}: {waiting[0].reason}; the same command goes on then", file=sys.stderr)
    if received or failed or stopped or elsewhere or waiting:
        sys.exit(128 + received if received else 1)


def _plans(paths: list[str], given: dict[str, str], runs: Path) -> list[SweepPlan]:
    read = [read_plan(Path(path), given, runs) for path in paths]
    names = [stage.name for plan in read for stage in (plan, *([plan.choice.plan] if plan.choice else []))]
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
