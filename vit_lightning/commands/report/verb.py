"""The verb `report`: one HTML file to show around."""

import time
import webbrowser
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from vit_lightning.errors import InputError
from vit_lightning.files import check_place, write_atomically
from vit_lightning.runs.folders import run_meant
from vit_lightning.terminal import near
from vit_lightning.terminal import report as say

FILE = "report.html"


def report(runs: list[str], out: Path | None = None, images: bool = True, open: bool = False) -> None:
    """Write one HTML file of what a run did: recipe, curves, cost, scores, confusions, mistakes, and what its net sees.

    python -m vit_lightning report runs/digits/0

    The file needs no network and runs no scripts, and can be sent around. Several runs are compared: their curves lie
    over each other, and a table says in which settings they differ. What is missing or damaged is left out, and said.

    Args:
        runs: Run folders, one or several.
        out: File to write; unset: report.html in the folder of the run, of several runs in the current one.
        images: Whether the data and the net of a run are opened, for its mistakes and what the net looks at. Its config
            names classes, whose code runs: give false for a run that you do not trust.
        open: Whether the page is opened in a browser.
    """
    path = write_report([Path(word) for word in runs], out, images)
    if open and not webbrowser.open(path.resolve().as_uri()):
        say(f"no browser could be opened here; open {near(path)} in one")


def check_installed() -> None:
    """Refuse a report where what draws or fills it is missing."""
    for package in ("matplotlib", "jinja2"):
        if find_spec(package) is None:
            raise InputError(f'a report needs {package}: pip install "vit-lightning[report]"')


def report_on(folder: Path) -> None:
    """Write the page of a run that has just ended, and has not failed if that cannot be done."""
    try:
        write_report([folder])
    except InputError as error:
        say(f"no report was written: {error}")


def write_report(runs: Sequence[Path], out: Path | None = None, images: bool = True) -> Path:
    """Write the page of one run, or of several compared, and say what it is; return where it lies.

    Args:
        runs: run folders, or checkpoints in them.
        out: the file; None: its usual place.
        images: whether data and net of a run are opened.

    Raises:
        InputError: there is no such run, the file cannot be written, or a library is missing.
    """
    from vit_lightning.commands.report.collect import collect, run_folder
    from vit_lightning.commands.report.page import page_of_run, page_of_runs
    from vit_lightning.commands.report.scores import outdated

    began = time.monotonic()
    check_installed()
    named = [run_folder(str(run)) for run in runs]
    folders = list(dict.fromkeys(named))
    if not folders:
        raise InputError(f"report needs a run; {run_meant(Path('runs'))}")
    for folder in folders:
        if (times := named.count(folder)) > 1:
            say(f"note     {near(folder)} is named {times} times, and is one run: it stands in the page once")
    path = out or (folders[0] if len(folders) == 1 else Path()) / FILE
    check_place(path, "--out")
    read = [collect(folder) for folder in folders]
    for run in read:
        run.notes += outdated(run)
    text = page_of_run(read[0], images) if len(read) == 1 else page_of_runs(read)
    content = text.encode()
    write_atomically(path, content)
    for run in read:
        for note in filter(None, (run.ended, *run.notes)):
            say(f"note     {near(run.folder)}: {note}")
    say(f"report   {near(path)}, {len(content) / 1e6:.2g} MB, written in {time.monotonic() - began:.1f} s")
    return path
