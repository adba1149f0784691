"""Findings about a window that does not suit the values of a set: it clips most of them, or leaves them dark."""

from collections.abc import Sequence

import numpy as np

from vit_lightning.commands.doctor.findings import Finding
from vit_lightning.commands.doctor.survey import Survey
from vit_lightning.data.window_fit import clipping, darkness, maps_deep, not_mapped
from vit_lightning.terminal import counted, typed


def windows(found: Sequence[Survey]) -> list[Finding]:
    """Sets of which the window clips most values, or of which all values are dark in it, or of too few bits for it."""
    return [finding for one in found for finding in (*_clipped(one), *_dark(one), *_of_eight_bits(one))]


def hides(found: Sequence[Survey]) -> bool:
    """Tell whether a window makes different images equal, so that equal ones say nothing."""
    return any(_clipped(one) for one in found)


def _clipped(one: Survey) -> list[Finding]:
    records = [record for record, facts in one.windowed.items() if facts.is_hidden]
    if one.window is None or 2 * len(records) <= len(one.windowed):
        return []
    text = clipping(one.window, _images(one, len(records)), (one.windowed[record] for record in records))
    fix = "give --data.window auto, or [low,high]; equal images are looked for with a window that shows them"
    return [Finding("warning", "depth", text, fix, tuple(str(one.keys[record]) for record in records))]


def _dark(one: Survey) -> list[Finding]:
    text = None if one.window is None else darkness(one.window, one.windowed.values())
    if one.window is None or text is None:
        return []
    peak = max(facts.high for facts in one.windowed.values())
    white = 2 ** int(peak).bit_length() - 1 if peak >= 1 and float(peak).is_integer() else peak
    fix = f"give --data.window '{typed((one.window[0], white))}', or auto"
    items = tuple(str(one.keys[record]) for record in one.windowed)
    return [Finding("warning", "depth", f"{_images(one, len(one.windowed))} {text}", fix, items)]


def _of_eight_bits(one: Survey) -> list[Finding]:
    if one.window is None or not maps_deep(one.window):
        return []
    readable = np.flatnonzero(one.readable).tolist()
    records = [record for record in readable if record not in one.windowed and record not in one.scaled]
    if 2 * len(records) <= len(readable):
        return []
    fix = "give the images with all their bits; for a fit of 8-bit images leave the window out"
    text = not_mapped(one.window, _images(one, len(records)))
    return [Finding("warning", "depth", text, fix, tuple(str(one.keys[record]) for record in records))]


def _images(one: Survey, count: int) -> str:
    return counted(count, f"{one.split} image", grouped=True)
