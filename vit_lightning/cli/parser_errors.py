"""jsonargparse's reports, a screen long for one typo, as one sentence with the bad token and a suggestion."""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.commands import named
from vit_lightning.errors import did_you_mean
from vit_lightning.runs import folders

UNKNOWN = (
    re.compile(r"unrecognized arguments: (?P<dashes>-*)(?P<option>[^\s=]+)"),
    re.compile(r"Option '(?P<option>[^']+)' is not accepted"),
    re.compile(r"(?:Group|Subcommand) '(?P<group>[^']+)' does not accept option '(?P<option>[^']+)'"),
)
CLASS = re.compile(r"Expected a dot import path string: (\S+)|Unexpected import path format: (\S+)")
NO_SUBCLASS = re.compile(r"Import path does not correspond to a subclass of (\w+)")
AMBIGUOUS = re.compile(r"Multiple subclasses with name \w+\. Give the full class path to avoid ambiguity: (.*)\.")
NO_MAPPING = re.compile(r"Unable to load config '([^']*)'|'\w+' object has no attribute 'keys'")
CLASS_PATH = re.compile(r"Problem with given class_path '([^']+)':\s*(?:- )?(.*)")
KEY = re.compile(r'Parser key "([^"]+)"')
EXPECTED = re.compile(r"Expected an? (<class '[^']+'>|typing\.Literal\[[^\]]*\]|[^.\n]+)")
BARE = re.compile(r"argument (\S+): expected one argument")
OPTION = re.compile(r"following arguments are required: \w+\.(\w+)")
REQUIRED = re.compile(r"following arguments are required: (\w+)")
TYPES = (
    (re.compile(r"int"), "a whole number, such as 8"),
    (re.compile(r"float"), "a number, such as 0.5"),
    (re.compile(r"bool"), "true or false"),
    (re.compile(r"tuple"), "values in brackets, such as [2, 10]"),
    (re.compile(r"tuple with (\d+) elements"), r"\1 values in brackets, such as [2, 10]"),
)
"""What Python calls a type, and how to type a value of it."""
CHOICE = "typing.Literal["
"""How Python begins a type whose values are some words alone."""
USUALLY_CALLED = {
    **dict.fromkeys(("hf", "transformers"), ("huggingface",)),
    **dict.fromkeys(("torchscript", "pt2"), ("torch_export",)),
    **dict.fromkeys(("pytorch", "torch", "pt", "pth"), ("safetensors", "checkpoint")),
}
"""What people call a format, and our words for it, of which a flag takes one."""
GIVEN = re.compile(r"(?:Got value|Given value): (.*)")


def shorten(message: str, flags: Iterable[str], plugins: Iterable[str], models: Iterable[str] = ()) -> str:
    """Say in one sentence what a parser's message reports.

    Args:
        message: What jsonargparse says.
        flags: Known flags with their dotted names, such as model.optim.lr.
        plugins: Short names of the datamodules at hand.
        models: Short names of the models.
    """
    verbs = named("run")
    key = ".".join(part for part in dict.fromkeys(KEY.findall(message)) if part)
    for pattern in UNKNOWN:
        if found := pattern.search(message):
            parts = found.groupdict()
            if parts.get("dashes") == "":
                return bare_word(parts["option"], list(flags))
            above = [part for part in (key, parts.get("group")) if part and part not in verbs]
            inside = [*above, *([] if parts["option"] == "fit" else [parts["option"]])]
            return unknown_flag(".".join(inside).replace("init_args.", ""), list(flags))
    if found := OPTION.search(message):
        return f"--{found[1]} is missing; --help says what it is"
    if found := REQUIRED.search(message):
        flag, teacher = (f"--{key}.{found[1]}", f"--{key}.help NAME") if key else (found[1], "--help")
        return f"{flag} is missing; {teacher} says what it is"
    given = [text for text in GIVEN.findall(message) if "NestedArg" not in text and len(text) < 200]
    given = ["null" if text == "None" else text for text in given]
    if found := NO_MAPPING.search(message):
        value = found[1] or "".join(given)
        return f"--{key} {value}: expected keys and values below it, or a YAML file that holds them"
    if found := AMBIGUOUS.search(message):
        return f"--{key} {''.join(given)}: several classes have that name; give one of {found[1]}"
    if found := NO_SUBCLASS.search(message):
        return f"--{key} {''.join(given)}: that is no {found[1]}"
    if found := CLASS.search(message):
        return unknown_class(key, found[1] or found[2], list(plugins), list(models))
    if found := CLASS_PATH.search(message):
        return unknown_class(key, found[1], list(plugins), list(models), found[2])
    wanted = [re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text) for text in EXPECTED.findall(message)]
    choices = [
        word.strip("'\"]") for text in wanted if text.startswith(CHOICE) for word in text[len(CHOICE) :].split(", ")
    ]
    wanted = [text.removeprefix(CHOICE).rstrip("]").replace("'", "") for text in wanted]
    # Every part that holds the flag, such as model, may be null as well and says so once.
    null = ", or null" if wanted.count("NoneType") >= len(KEY.findall(message)) > 0 else ""
    wanted = [text for text in dict.fromkeys(wanted) if text != "NoneType" and not text.startswith("path but")]
    if key in ("data", "model") and given and not wanted:
        return f"--{key} {given[0]}: expected a class, or a mapping of class_path and init_args"
    if key and given and wanted:
        said = f"--{key} {given[0]}: expected {', or '.join(_in_words(one, given[0]) for one in wanted)}{null}"
        return said + _choice_meant(given[0], choices)
    if key and not given and "Union subtypes" in message:
        return f"--{key}: a flag below it needs its class first; give --{key} CLASS too, such as CSVLogger for a logger"
    lines = [line.strip(" -") for line in message.splitlines() if line.strip(" -")]
    return " ".join(lines[:3])[:400]


def bare_flag(message: str, line: CommandLine) -> str | None:
    """Name the flag that has no value, if a parser's message says that; of --model.net.depth it calls it --model."""
    found = BARE.search(message)
    bare = [flag for flag, value in line if found and value is None and flag.startswith(found[1])]
    return f"{bare[0]} has no value; --help says what it takes" if bare else None


def _choice_meant(given: str, choices: list[str]) -> str:
    """Suggest one of the words that a flag takes, or nothing."""
    usual = next((word for word in USUALLY_CALLED.get(given.lower(), ()) if word in choices), None)
    return f"; did you mean {usual}?" if usual else did_you_mean(given.lower(), choices)


def _in_words(wanted: str, given: str) -> str:
    """What a value of a type looks like; other texts as they are."""
    if wanted == "dict":
        name, equals, value = given.partition("=")
        pair = f"{name.strip()}: {value.strip()}" if equals else "NAME: VALUE"
        return f"names and values in braces, such as '{{{pair}}}'"
    return next((found.expand(words) for name, words in TYPES if (found := name.fullmatch(wanted))), wanted)


def bare_word(word: str, flags: list[str]) -> str:
    """Name a word that stands where a flag is expected; one that is a flag but for its dashes is said to be."""
    if word in flags:
        return f"{word} lacks its dashes; type --{word}"
    if configs := folders.configs(Path(word)):
        return f"{word} is a run, whose settings this verb takes as -c {configs[-1]}"
    return f"{word} stands where a flag is expected; a flag begins with --"


def unknown_flag(flag: str, flags: list[str]) -> str:
    """Name a flag that does not exist, and the one with the nearest last word, or else what its group holds."""
    flags = [known for known in flags if known != flag]  # the default model's may not be those of the one chosen
    group, _, word = flag.rpartition(".")
    near = difflib.get_close_matches(word, {known.rpartition(".")[2] for known in flags}, n=3, cutoff=0.7)
    same = [known for last in near for known in flags if known.rpartition(".")[2] == last]
    if flag.split(".")[:2] == ["data", "also"]:
        return (
            "this data set has no --data.also, which ImageFolder and the ImageNets have; test RUN --data.root ROOT "
            "--data.test TABLE scores another table"
        )
    same.sort(key=lambda known: (known.rpartition(".")[0] != group, near.index(known.rpartition(".")[2])))
    said = f"there is no flag {'-' if len(flag) == 1 else '--'}{flag}"
    if same:
        return f"{said}; did you mean --{same[0]}?"
    siblings = [known.rpartition(".")[2] for known in flags if known.rpartition(".")[0] == group]
    shown = ", ".join(siblings[:12]) + ", ..." * (len(siblings) > 12)
    held = f"; {group or 'the verb'} has {shown}" if siblings else "; --help lists them all"
    return f"{said}{held}"


def _of_lightning(key: str) -> Iterable[str]:
    """Short names of the classes that a flag of the trainer takes."""
    from lightning.pytorch import callbacks, loggers  # not for the errors of file verbs

    if key.startswith("trainer.logger"):
        return loggers.__all__
    return [*callbacks.__all__, "FewShot", "Require"] if key.startswith("trainer.callbacks") else ()


def unknown_class(key: str, name: str, plugins: list[str], models: list[str], reason: str = "") -> str:
    """Name a class that does not exist; the nearest name of a datamodule or a model follows."""
    flag = key.partition(".")[0]
    if flag not in ("data", "model"):
        near = did_you_mean(name, _of_lightning(key))
        return f"--{key} {name}: no such class" + (f" ({reason})" if reason else near or "; give its full class path")
    kind, known = ("datamodule", plugins) if flag == "data" else ("model", models)
    if name in known:
        return f"--{flag} {name}: the class of this plug-in has another name; give its path, such as package.data.Birds"
    return f"--{flag} {name}: no such {kind}{did_you_mean(name, known)} (known: {', '.join(sorted(known))})"
