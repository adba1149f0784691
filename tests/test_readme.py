"""Every command and every snippet of the README works as printed."""

import re
import shlex
from pathlib import Path

import pytest

from vit_lightning.commands import VERBS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.S)
LINES = "\n".join(body for kind, body in BLOCKS if kind == "bash").replace("\\\n", " ").splitlines()
COMMANDS = [
    line.partition("python -m vit_lightning ")[2].partition("#")[0] for line in LINES if "vit_lightning" in line
]


def words(command: str) -> list[str]:
    return [str(ROOT / word) if word.startswith("experiments/") else word for word in shlex.split(command)]


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("fit")])
def test_fit_commands_parse(app, command):
    done = app(*[word for word in words(command) if word not in ("--ckpt_path", "last")], "--print_config")
    assert done.code == 0, done.err


def test_the_first_page_works_in_its_order(app):
    """The main job for one epoch, then every command that reads its checkpoint."""
    assert app("fit", "-c", ROOT / "experiments/digits.yaml", "--trainer.max_epochs", 2).code == 0
    followers = [command for command in COMMANDS if "--ckpt_path" in command]
    assert [command.split()[0] for command in followers] == ["test", "predict", "fit"]
    for command in followers:
        longer = ("--trainer.max_epochs", 3, "--model.schedule.allow_horizon_change", "true")
        done = app(*words(command), *(longer if command.startswith("fit") else ()))
        assert done.code == 0, done.err
    assert Path("runs/digits/0/predictions.csv").is_file()


@pytest.mark.parametrize("code", [body for kind, body in BLOCKS if kind == "python"])
def test_snippets_run(code):
    exec(compile(code, "README.md", "exec"), {})


def test_every_verb_and_file_named_exists():
    for verb in (verb.name for verb in VERBS):
        assert f"`{verb}`" in README, f"the README lacks {verb}"
    for path in re.findall(r"\b(?:experiments|docker)/[\w/.]*\w", README):
        assert (ROOT / path).exists(), path


def test_ci_runs_the_readmes_test_command():
    tests = next(line for line in LINES if "pytest" in line)
    command = re.search(r"python -m pytest.*", tests)[0]
    assert command in (ROOT / ".ci/run").read_text()
