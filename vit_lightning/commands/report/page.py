"""From what was read of runs to one self-contained HTML file."""

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vit_lightning import __version__
from vit_lightning.commands.report import comparison, scores, settings, wording
from vit_lightning.commands.report.curves import draw_run, draw_runs
from vit_lightning.commands.report.pictures import Pictures, pictures_of
from vit_lightning.commands.report.run import Run
from vit_lightning.commands.report.tables import ClassRow, Matrix
from vit_lightning.inspection.drawing import style
from vit_lightning.terminal import percentage

TEMPLATES = Path(__file__).parent / "templates"
LARGEST = 5_000_000
"""Bytes of a page, so that it can be sent around."""
NO_BREAK = "\N{NO-BREAK SPACE}"
NAME = 120
"""Letters of a name that are shown."""
SHOWN_CLASSES = 25
"""Rows of the table of classes that are not folded away."""
MOST_CLASSES = 1_000
MOST_IN_A_TABLE = 20
"""Classes whose confusion matrix is a table; of more, a picture."""
MOST_CONFUSIONS = 10
UNTOLD = ("run", "threads")
"""Lines of a plan that say where a run was, which may have been moved since."""
HEATS = 9
"""Steps of the colour of a cell."""


def page_of_run(run: Run, with_images: bool) -> str:
    """Return the page of a run."""
    about, changed = settings.ancestry(run)
    facts = {
        "title": f"Run {run.name}",
        "run": run,
        "summary": wording.sentence(run),
        "ended": run.ended,
        "recipe": wording.recipe(run),
        "cost": wording.cost(run),
        "scores": scores.score_rows(run),
        "tables_are_of": scores.tables_are_of(run),
        "plan": [(word, said) for word, said in run.plan if word not in UNTOLD],
        "curves": draw_run(run),
        "environment": wording.environment(run),
        "ancestry": " ".join(about),
        "changed": changed,
        "classes": _by_f1(run.classes),
        "table": _table(run.confusion),
        "confusions": _confusions(run.confusion),
        "pictures": pictures_of(run, with_images),
        "lists_mistakes": (run.folder / f"{run.tables_of}.mistakes.csv").exists(),
        "several": scores.has_several_labels(run),
    }
    text = _render("run.html.jinja", facts, run.notes)
    if len(text.encode()) > LARGEST:
        note = "The pictures of images and of the net are left out: with them the page would exceed 5 MB."
        text = _render("run.html.jinja", facts | {"pictures": Pictures()}, [*run.notes, note])
    return text


def page_of_runs(runs: Sequence[Run]) -> str:
    """Return a page that compares runs."""
    names, rows = comparison.names_of(runs), comparison.scores(runs)
    facts = {
        "title": f"Comparison of {len(runs)} runs",
        "names": names,
        "summaries": [
            (name, f"{wording.sentence(run)} {run.ended}".strip()) for name, run in zip(names, runs, strict=True)
        ],
        "tables": [
            ("scores", "Scores", rows, comparison.unlike_images(rows)),
            ("differs", "What differs", comparison.different_settings(runs), comparison.without_settings(runs)),
            ("cost", "Cost", comparison.beside(runs, wording.cost), []),
            ("environment", "Environment", comparison.beside(runs, wording.environment), []),
        ],
        "curves": draw_runs(runs, names),
    }
    notes = [f"{name}: {note}" for name, run in zip(names, runs, strict=True) for note in run.notes]
    return _render("comparison.html.jinja", facts, notes)


def _render(template: str, facts: dict[str, Any], notes: Sequence[str]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    css = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "shown": lambda text, longest=NAME: Markup("<bdi>{}</bdi>").format(style.printable(str(text), longest)),
        "plain": lambda text, longest=NAME: style.printable(str(text), longest),
        "share": lambda value: "" if value is None else percentage(value, 1).replace(" ", NO_BREAK),
    }
    return made.get_template(template).render(
        **facts,
        notes=list(notes),
        css=Markup(css),
        csp_hash=base64.b64encode(hashlib.sha256(css.encode()).digest()).decode(),
        version=__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        shown_classes=SHOWN_CLASSES,
        most_classes=MOST_CLASSES,
    )


def _by_f1(rows: list[ClassRow]) -> list[ClassRow]:
    """Return few classes in their order, many by rising F1, so that the first ones say most."""
    if len(rows) <= SHOWN_CLASSES:
        return rows
    return sorted(rows, key=lambda row: 2.0 if row.shares.get("f1") is None else row.shares["f1"])[:MOST_CLASSES]


def _table(matrix: Matrix | None) -> dict[str, Any] | None:
    """Return rows of images and their heat, from 0 to 9, by the share of the true class; None for many classes."""
    if matrix is None or not 0 < len(matrix.names) <= MOST_IN_A_TABLE:
        return None
    counts = [[0] * len(matrix.names) for _ in matrix.names]
    for true, predicted, images in matrix.entries:
        counts[true][predicted] = images
    rows = []
    for row in counts:
        total = max(sum(row), 1)
        rows.append([(images, min(HEATS, -(-HEATS * images // total)) if images else 0) for images in row])
    return {"names": matrix.names, "rows": rows}


def _confusions(matrix: Matrix | None) -> list[tuple[str, str, int]]:
    """Return the classes that are most often taken for others."""
    if matrix is None:
        return []
    wrong = sorted((entry for entry in matrix.entries if entry[0] != entry[1]), key=lambda entry: -entry[2])
    return [
        (matrix.names[true], matrix.names[predicted], images) for true, predicted, images in wrong[:MOST_CONFUSIONS]
    ]
