"""The words of a command line, paired once into flags and values, from which all else reads."""

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from inspect import signature
from typing import NamedTuple

FLAG = re.compile(r"--[A-Za-z_]|-[A-Za-z]$")
"""What begins a flag; -1e-5 and -inf are values."""


class Argument(NamedTuple):
    """A flag with its value, if it has one; or a word that stands without a flag, whose flag is empty."""

    flag: str
    value: str | None

    def spelled(self) -> list[str]:
        """Words for a parser; joined, since argparse would take the value -1e-5 for a flag."""
        if not self.flag or self.value is None:
            return [self.flag or str(self.value)]
        return [f"{self.flag}={self.value}"] if self.flag.startswith("--") else [self.flag, self.value]


class CommandLine:
    """Arguments in the order in which they were typed.

    Args:
        words: What was typed.
        switches: Flags that may stand without a value.
        lists: Flags that may have several values.
    """

    def __init__(self, words: Iterable[str], switches: Collection[str] = (), lists: Collection[str] = ()) -> None:
        self.arguments = list(_paired(deque(words), switches, lists))

    def __iter__(self) -> Iterator[Argument]:
        return iter(self.arguments)

    @property
    def verb(self) -> str | None:
        """The first word, if it is no flag."""
        first = self.arguments[0] if self.arguments else None
        return first.value if first and not first.flag else None

    def values(self, *flags: str) -> list[str]:
        """Values of a flag of these names, in order."""
        return [value for flag, value in self if flag in flags and value is not None]

    def value(self, flag: str) -> str | None:
        """Value of a flag; of several, the last one typed."""
        return next(reversed(self.values(flag)), None)

    def has(self, flag: str) -> bool:
        """Whether a flag was typed, with a value or without."""
        return any(argument.flag == flag for argument in self)

    def set(self, flag: str, value: str) -> None:
        """Type a flag after all others, so that it wins."""
        self.arguments.append(Argument(flag, value))

    def set_first(self, flag: str, value: str) -> None:
        """Type a flag before all others, right after the verb."""
        self.arguments.insert(1, Argument(flag, value))

    def move_behind_class(self, flag: str) -> None:
        """Move what is typed as `--data.name value` behind the `--data CLASS` after it, where the parser knows it."""
        place = next((index for index, argument in enumerate(self) if argument.flag == flag), 0)
        early = [a for a in self.arguments[:place] if re.match(rf"{flag}\.(?!help\b)", a.flag)]
        kept = [a for a in self.arguments[:place] if a not in early]
        self.arguments[: place + 1] = [*kept, self.arguments[place], *early] if early else self.arguments[: place + 1]

    def words(self) -> list[str]:
        """Spell the arguments for a parser."""
        return [word for argument in self for word in argument.spelled()]


def _paired(left: deque[str], switches: Collection[str], lists: Collection[str]) -> Iterator[Argument]:
    while left:
        word = left.popleft()
        flag, sign, value = word.partition("=")
        alone = not left or FLAG.match(left[0]) or (flag in switches and left[0] not in ("true", "false"))
        if not FLAG.match(flag):
            yield Argument("", word)
        elif sign:
            yield Argument(flag, value)
        elif alone:
            yield Argument(flag, None)
        else:
            yield Argument(flag, left.popleft())
            while flag in lists and left and not FLAG.match(left[0]):
                yield Argument(flag, left.popleft())


def for_function(words: list[str], function: Callable) -> list[str]:
    """Spell words for jsonargparse (4.53), which knows neither `a b` as a list nor a switch that stands alone.

    A list may be typed as `[a,b]` too, which jsonargparse reads itself.
    """
    hints = {name: str(parameter.annotation) for name, parameter in signature(function).parameters.items()}
    switches = [f"--{name}" for name, hint in hints.items() if "bool" in hint]
    lists = [f"--{name}" for name, hint in hints.items() if hint.startswith("list[")]
    line = CommandLine(words, switches, lists)
    plain = [value for flag, value in line if not flag]
    flags = [argument for argument in line if argument.flag]
    if plain and next(iter(hints.values())).startswith("list[") and not _is_list(plain[0]):
        plain = [json.dumps(plain, ensure_ascii=False)]
    spelt = [
        Argument(f"{flag}+", value)
        if flag in lists and value is not None and not _is_list(value)
        else Argument(flag, "true" if value is None and flag in switches else value)
        for flag, value in flags
    ]
    return [*plain, *(word for argument in spelt for word in argument.spelled())]


def _is_list(value: str) -> bool:
    return value.startswith("[") and value.endswith("]")
