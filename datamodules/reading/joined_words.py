"""Labels of several classes with a sign between them that names have as well: a blank, a line, a point, or `and`."""

from collections.abc import Collection

from datamodules.reading.label_text import BETWEEN_LABELS, BETWEEN_NAMES, NUMBER, is_whole, joined

BLANKS = (" and ", " ")
BETWEEN_WORDS = (" and ", " ", "_", "-", ".")


def joined_words(names: Collection[str]) -> tuple[str, str] | None:
    """Return the first name whose words are all names, as "scab rust" beside scab and rust, and what is between."""
    found = joined(names, BETWEEN_WORDS)
    return None if found is None or NUMBER.fullmatch(found[0]) else found  # 2.0 beside 2 and 0 is a number


def likely_lists(names: Collection[str]) -> tuple[str, str] | None:
    """Return the first of some names that are all likely lists of labels, and what is between these.

    They are made of numbers, or of words of which there are no more than names.
    """
    for sign in (*BETWEEN_WORDS, *BETWEEN_LABELS, *BETWEEN_NAMES):
        parts = [{part.strip() for part in name.split(sign)} - {""} for name in names]
        known = set().union(*parts)
        if min(map(len, parts), default=0) > 1 and (all(map(is_whole, known)) or len(known) <= len(names)):
            return min(names), sign
    return None


def doubtful(names: Collection[str], is_divided: bool, fix: str) -> str | None:
    """Say which labels may be several where images may have several, None if none may.

    Args:
        names: all classes.
        is_divided: whether some image has several.
        fix: what divides a label, with {} for the sign.
    """
    if is_divided and (found := joined_words(names)):
        return (
            f"the label {found[0]!r:.60} may be several, as each of its words is a label: {fix.format(repr(found[1]))}"
        )
    if not is_divided and (found := likely_lists(names)):
        return (
            f"no image has several labels, and each label may be several, such as {found[0]!r:.60}: "
            f"{fix.format(repr(found[1]))}"
        )
    return None


def several_in_one(names: Collection[str], fix: str) -> str | None:
    """Say which label of images that have one each is made of others with blanks between; None if none is.

    Args:
        names: all classes.
        fix: what to do if it holds several, with {} for what is between.
    """
    if (found := joined(names, BLANKS)) is None:
        return None
    return (
        f"the label {found[0]!r:.60} is read as one class, and each of its words is a class as well; if it holds "
        f"several labels, {fix.format(repr(found[1]))}; if not, list all classes in --data.class_map"
    )
