"""The one exception for wrong user input."""

import difflib
import re
from collections.abc import Iterable


class InputError(ValueError):
    """What the user gave cannot work; the message is one sentence with the value, the expectation and the fix.

    The command line prints the message alone and exits with status 1; any other exception keeps its traceback.
    """


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggestion to append to a message, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """Return a text with its line breaks and other control characters escaped: a class may be called anything."""
    return CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def at_most(most: int) -> str:
    """Name the numbers from 1 up to one, such as `5 or less`; below 2 there is one alone."""
    return f"{most} or less" if most > 1 else "1"


def listing(names: Iterable[object], most: int = 5, longest: int = 80) -> str:
    """Name the first of what may be many, each in so many characters at most, and count the rest."""
    texts = [one_line(str(name)) for name in names]
    shown = ", ".join(text if len(text) <= longest else f"{text[: longest - 3]}..." for text in texts[:most])
    return f"{shown} and {len(texts) - most:,} more" if len(texts) > most else shown
