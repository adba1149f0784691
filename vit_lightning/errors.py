"""The one exception for wrong user input."""

import difflib
from collections.abc import Iterable
from unicodedata import category


class InputError(ValueError):
    """What the user gave cannot work; the message is one sentence with the value, the expectation and the fix.

    The command line prints the message alone and exits with status 1; any other exception keeps its traceback.
    """


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggestion to append to a message, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


AS_THEY_ARE = ("Zs", "Cs")
"""Categories of characters that Python does not print, which stay all the same: spaces, and bytes that are no UTF-8."""
JOINERS = "\u200c\u200d"
"""Signs of no width that writing needs: Persian's, and those of a family of emoji."""


def one_line(text: str) -> str:
    r"""Return a text with what breaks, moves or turns its line escaped, as \n or \u202e; any name may hold it."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or category(sign) in AS_THEY_ARE or sign in JOINERS else repr(sign)[1:-1]
        for sign in text
    )


def seen(text: str) -> str:
    """Return a text of several lines with the same escaped but their breaks."""
    return "\n".join(map(one_line, text.split("\n")))


def at_most(most: int) -> str:
    """Name the numbers from 1 up to one, such as `5 or less`; below 2 there is one alone."""
    return f"{most} or less" if most > 1 else "1"


def listing(names: Iterable[object], most: int = 5, longest: int = 80) -> str:
    """Name the first of what may be many, each in so many characters at most, and count the rest."""
    texts = [one_line(str(name)) for name in names]
    shown = ", ".join(text if len(text) <= longest else f"{text[: longest - 3]}..." for text in texts[:most])
    return f"{shown} and {len(texts) - most:,} more" if len(texts) > most else shown
