"""Findings about a window that does not suit the values of a set: it clips most of them, or leaves them dark."""

from collections.abc import Sequence

from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.survey import Survey
from vit_lightning.terminal import counted, typed

CLIPPED = 0.5
"""Share of an image's values beyond the window from which on it hardly shows the image."""
DARK = 1 / 8
"""Share of the window below which all values of a set are dark."""


def windows(found: Sequence[Survey]) -> list[Finding]:
    """Sets of which the window clips most values, or of which all values are dark in it."""
    return [finding for one in found if one.windowed for finding in (*_clipped(one), *_dark(one))]


def hides(found: Sequence[Survey]) -> bool:
    """Tell whether a window makes different images equal, so that equal ones say nothing."""
    return any(_clipped(one) for one in found)


def _clipped(one: Survey) -> list[Finding]:
    records = [record for record, facts in one.windowed.items() if facts.beyond > CLIPPED]
    if one.window is None or 2 * len(records) <= len(one.windowed):
        return []
    low, high = (
        f(getattr(one.windowed[record], end) for record in records) for f, end in ((min, "low"), (max, "high"))
    )
    text = (
        f"the window {typed(one.window)} clips more than half of the values of "
        f"{counted(len(records), f'{one.split} image', grouped=True)}, which lie from {low:,g} to {high:,g}"
    )
    fix = "give --data.window auto, or [low,high]; equal images are looked for with a window that shows them"
    return [Finding("warning", "depth", text, fix, tuple(str(one.keys[record]) for record in records))]


def _dark(one: Survey) -> list[Finding]:
    if one.window is None:
        return []
    low, high = one.window
    peak = max(facts.high for facts in one.windowed.values())
    share = (peak - low) / (high - low)
    if not 0 < share < DARK:
        return []
    white = 2 ** int(peak).bit_length() - 1 if peak >= 1 and float(peak).is_integer() else peak
    text = (
        f"{counted(len(one.windowed), f'{one.split} image', grouped=True)} with values up to {peak:,g} in the window "
        f"{typed(one.window)}, shown at 1/{1 / share:.0f} of their brightness at most"
    )
    fix = f"give --data.window '{typed((low, white))}', or auto"
    return [Finding("warning", "depth", text, fix, tuple(str(one.keys[record]) for record in one.windowed))]
