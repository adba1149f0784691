"""The first page of help: short, ours, and true of the real parser."""

import re
import subprocess
import sys

import pytest

from tests.cli.parsers import defaults, flags_of, run_parser
from vit_lightning.cli.help import page
from vit_lightning.cli.help_sentences import first_sentence, spell
from vit_lightning.commands import VERBS, named

ROW = re.compile(r"^  (?:-c, )?(--[\w.]+)((?:.*)(?:\n {30,}.*)*)", re.MULTILINE)
DEFAULT = re.compile(r"default: ([^)]+)\)$")


def rows(verb: str) -> dict[str, str]:
    """What the page of a verb says of each flag."""
    text = page(verb).partition("\nMore:")[0]
    return {flag: " ".join(said.split()) for flag, said in ROW.findall(text)}


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_a_page_is_short_and_has_no_markup(monkeypatch, verb, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    usage, *lines = page(verb).splitlines()
    assert len(lines) < 150 and usage.startswith(f"usage: python -m vit_lightning {verb} ")
    example = re.compile(r"    \S|      \S")
    assert all(len(line) <= columns for line in lines if not example.match(line))
    assert not re.search(r":\w+:`|``|<class", page(verb))
    assert any(f"{verb} --help all" in line for line in lines)


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_flag_shown_exists_and_says_something(verb):
    shown = rows(verb)
    assert shown and set(shown) <= set(flags_of(verb))
    assert all(shown.values())


def test_the_defaults_shown_are_the_parsers():
    found = {flag: DEFAULT.search(said) for flag, said in rows("fit").items()}
    words = [f"{flag}={match[1]}" for flag, match in found.items() if match and flag not in ("--data", "--model")]
    assert len(words) > 15
    parser = run_parser("fit")
    data = ("--data=datamodules.folder.ImageFolder", "--data.root=here")  # which has no defaults of its own
    assert parser.parse_args(["fit", *data, *words]) == parser.parse_args(["fit", *data])


@pytest.mark.parametrize(
    "verb", ["convert", "sweep", "export", "probe", "inspect", "benchmark", "plan", "doctor", "prepare"]
)
def test_a_verbs_own_flags_are_all_shown_with_their_defaults(verb):
    shown = rows(verb)
    for name, value in defaults(verb).items():
        found = DEFAULT.search(shown[f"--{name}"])
        if value is not None:
            assert found[1] == spell(value)


@pytest.mark.parametrize(
    "flag",
    ["data.batch_size", "model.optim.lr", "model.weights", "trainer.precision", "trainer.devices", "ckpt_path"],
)
def test_what_everyone_looks_for_is_on_the_page_of_fit(flag):
    assert f"\n  --{flag} " in page("fit")


def test_the_page_loads_no_torch():
    code = (
        "import sys; from vit_lightning.__main__ import main; sys.argv = ['v', 'fit', '--help']; main();"
        "print(sorted({'torch', 'lightning', 'jsonargparse'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: python -m vit_lightning fit") and done.stdout.endswith("[]\n")


def test_all_of_it_is_the_complete_list_without_internals(app):
    text = app("fit", "--help", "all").out
    run = "[RUN_FOLDER | CHECKPOINT] [-c EXPERIMENT.yaml ...]"
    assert text.startswith(f"usage: python -m vit_lightning fit {run} [--flag value ...]\n")
    for flag in flags_of("fit"):
        assert flag in text, flag
    said = "".join(text.split())
    assert "vit_lightning.callbacks.Require" in said
    for internal in ("PlainProgress", "RunRecord", "FiniteGuard", "CheckpointFiles", "RecipeModel"):
        assert internal not in said
    assert not re.search(r":\w+:`|``|<class 'lightning", text)
    assert text.index("--model.optim.lr") < text.index("--trainer.accelerator")
    said = " ".join(text.split())
    for sentence in (
        "a path, or the word last or best",
        "Seed of random numbers, 0 to 4294967295",
    ):
        assert sentence in said
    assert "__main__" not in text
    assert text.splitlines()[-1].startswith("The flags of data are those of Digits; fit --data NAME --help all shows")


def test_all_of_a_file_verbs_flags(app):
    text = app("export", "--help", "all").out
    assert "--print_config" in text and "--licence" in text


@pytest.mark.parametrize("verb", named("run"))
def test_required_flags_are_in_the_usage_line(verb):
    assert ("--out VALUE" in page(verb).splitlines()[0]) == (verb in ("prepare", "average"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Peak learning rate.", "Peak learning rate"),
        ("Mirror images. Turn it off for digits.", "Mirror images"),
        ("Folder; unset: runs. More.", "Folder; unset: runs"),
        (f"What the head reads: {'x' * 100}", "What the head reads"),
        ("i/n: of n parts the i-th; every part writes", "i/n: of n parts the i-th"),
    ],
)
def test_first_sentences(text, sentence):
    assert first_sentence(text) == sentence
