"""Every command, flag, snippet and count of the README, and of the files that it hands its reader on to, is true."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from PIL import Image

from vit_lightning.cli.vit_cli import ViTCLI
from vit_lightning.commands import named
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.layouts.checkpoint import write
from vit_lightning.weights.report import Report

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FURTHER = [(ROOT / path).read_text() for path in ("datamodules/README.md", ".github/CONTRIBUTING.md")]
SPOKEN = "\n".join([README, *FURTHER])
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", SPOKEN, flags=re.S)
LINES = "\n".join(body for kind, body in BLOCKS if kind == "bash").replace("\\\n", " ").splitlines()
DOOR = "python -m vit_lightning "
COMMANDS = [line.partition(DOOR)[2].partition("#")[0] for line in LINES if DOOR in line]
SNIPPETS = [body for kind, body in BLOCKS if kind == "python"]
OF_A_RUN = [code for code in SNIPPETS if "Predictor(" in code]
INLINE = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", SPOKEN, flags=re.S))
OF_EXPERIMENTS = re.findall(r"`([^`\n]+)`", (ROOT / "experiments/README.md").read_text())
OWN_MODEL = next(code for code in SNIPPETS if "(Classifier)" in code)
OF_OWN_CODE = [command for command in COMMANDS if "my_model." in command]
OF_THE_RUN = [command for command in COMMANDS if command.split()[1].startswith("runs/digits")]
OF_THE_FIT = [command for command in COMMANDS if command.split()[1].startswith("runs/finetune_few")]
OF_OWN_IMAGES = [
    next(command for command in COMMANDS if command.startswith(start))
    for start in ("doctor --data ImageFolder", "probe --data ImageFolder", "fit -c experiments/finetune_few.yaml")
]
FIRST_PAGE = [command for command in COMMANDS if "-c experiments/digits.yaml" in command]
READING_PATH = re.findall(r"^\| `(\S+)` \| (\d+) \|", README, flags=re.M)
WITH_OWN_FLAGS = ("CIFAR10", "ImageNet1k", "Images", "Manifest", "Parquet", "Shards", "Synthetic", "VTAB", "WebShards")
"""Data whose flags are named beside those that all data have."""
NEEDED = {"prepare": ("--out", "shards"), "average": ("--out", "soup.ckpt")}
FILE_VERBS = named("file")


def words(command: str) -> list[str]:
    return [str(ROOT / word) if word.startswith("experiments/") else word for word in shlex.split(command)]


def without_checkpoint(words: list[str]) -> list[str]:
    """The same words without --ckpt_path and its value, which only a run that exists can have."""
    if "--ckpt_path" not in words:
        return words
    at = words.index("--ckpt_path")
    return words[:at] + words[at + 2 :]


def names(config: dict, prefix: str = "") -> set[str]:
    """Flags that set the values of a config."""
    found = set()
    for key, value in config.items():
        flag = f"{prefix}{key}"
        found.add(flag)
        if isinstance(value, dict):
            found |= names(value, prefix if key == "init_args" else f"{flag}.")
    return found


def flags_of(app, *words: object) -> set[str]:
    """The flags of a verb that takes those of a fit."""
    done = app(*words, "--print_config")
    assert done.code == 0, done.err
    return names(yaml.safe_load(done.out))


@pytest.fixture
def verbs(app) -> list[str]:
    """The verbs that the command line lists."""
    return re.findall(r"^  (\w+)  +\w", app("--help").out, flags=re.M)


OF_A_FOLDER = OF_THE_RUN + OF_THE_FIT


@pytest.mark.parametrize("command", [command for command in COMMANDS if command not in OF_A_FOLDER + OF_OWN_CODE])
def test_a_command_parses(app, command, monkeypatch):
    """By the real parser, required flags included; a run stops before it builds anything."""
    monkeypatch.setattr(ViTCLI, "before_instantiate_classes", lambda cli: sys.exit(0))
    fetches = command.startswith("probe") and "hf://" in command  # what weights say of their images is read at once
    given = from_scratch(command) if fetches else without_checkpoint(words(command))
    done = app(*given, *(["--print_config"] if given[0] in FILE_VERBS else []))
    assert done.code == 0, done.err


def test_the_first_page_works_in_its_order(app):
    """The main job for two epochs, then every command that reads its checkpoint."""
    first, *followers = FIRST_PAGE
    assert [command.split()[0] for command in FIRST_PAGE] == ["fit", "test", "predict", "fit"]
    assert app(*words(first), "--trainer.max_epochs", 2).code == 0
    for command in followers:
        assert "--ckpt_path" in command
        longer = ("--trainer.max_epochs", 3, "--model.schedule.allow_horizon_change", "true")
        done = app(*words(command), *(longer if command.startswith("fit") else ()))
        assert done.code == 0, done.err
    assert Path("runs/digits/0/predictions.csv").is_file()
    Image.new("RGB", (20, 16), "grey").save("x.jpg")
    assert [command.split()[0] for command in OF_THE_RUN] == ["test", "predict", "fit", "doctor", "inspect"]
    for command in OF_THE_RUN:
        done = app(*words(command), *(("--maps", 1) if command.startswith("inspect") else ()))  # each is drawn for long
        assert done.code == 0, done.err
    assert Path("runs/digits/0/test.json").is_file() and not Path("runs/digits/1").exists()


def test_fine_tuning_works_in_its_order(app):
    """On few small images and from a small net; what follows the fit takes its run folder as it is printed."""
    pytest.importorskip("onnxruntime")
    for number in range(40):
        path = Path("photos", "ab"[number % 2], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (5 * number, number % 2 * 200, 9)).save(path)
    Path("new_photos").mkdir()
    Image.new("RGB", (16, 16)).save("new_photos/x.png")
    write(build(NetConfig("mu/8"), 16, 3), Report("", "", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)), Path("w.ckpt"))
    small = ("--data.image_size", 16, "--data.batch_size", 8, "--data.num_workers", 0, "--trainer.accelerator", "cpu")
    doctor, probe, fit = ([*words(command), "--model.weights", "w.ckpt", *small] for command in OF_OWN_IMAGES)
    for command in (doctor, [*probe, "--shots", "[5]", "--neighbours", "[5]"], [*fit, "--trainer.max_epochs", 20]):
        done = app(*command)
        assert done.code == 0, done.err
    assert [command.split()[0] for command in OF_THE_FIT] == ["predict", "export"]
    for command in OF_THE_FIT:
        done = app(*words(command))
        assert done.code == 0, done.err
    assert "x.png" in Path("runs/finetune_few/0/predictions.csv").read_text() and Path("exported/model.onnx").is_file()


def from_scratch(command: str) -> list[str]:
    """The same words without the flags of weights, which lie elsewhere."""
    kept, flags = words(command), ("--model.weights", "--model.weights_head")
    return [word for at, word in enumerate(kept) if word not in flags and kept[at - 1] not in flags]


@pytest.mark.parametrize("code", [code for code in SNIPPETS if code not in OF_A_RUN])
def test_snippets_run(code, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # a Trainer writes where it is
    exec(compile(code, "README.md", "exec"), {})


def test_the_snippets_of_a_run_run(app):
    assert app(*words(FIRST_PAGE[0]), "--trainer.max_epochs", 2, "--trainer.accelerator", "cpu").code == 0
    for name in ("x.jpg", "y.jpg"):
        Image.new("RGB", (20, 16), "grey").save(name)
    made: dict[str, Any] = {}
    for code in OF_A_RUN:
        exec(compile(code, "README.md", "exec"), made)
    assert made["features"].shape[0] == 2 and made["attention"][0].shape[0] == 1
    assert sum(made["predictor"]("x.jpg").values()) == pytest.approx(1)
    assert made["maps"].shape == (1, *made["net"].grid) and made["pixels"].shape[:2] == (len(made["attention"]), 1)


def test_own_model_and_callback_train_and_are_tested(app, monkeypatch, tmp_path):
    (tmp_path / "my_model.py").write_text(OWN_MODEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_model", raising=False)
    (command,) = OF_OWN_CODE
    small = ("--model.net.variant", "mu/8", "--trainer.max_epochs", 2, "--trainer.accelerator", "cpu")
    done = app(*words(command), *small)
    assert done.code == 0, done.err
    assert "loss     Poly-1" in done.out and len(re.findall(r"^F1 0\.\d{3}!", done.out, flags=re.M)) == 2
    run = Path("runs/default/0")
    assert "val/f1" in (run / "metrics.csv").read_text()
    checkpoint = torch.load(run / "checkpoints/last.ckpt", weights_only=True)
    assert checkpoint["hyper_parameters"]["epsilon"] == 2
    done = app("test", run)
    assert done.code == 0, done.err


def test_flags_do_not_come_from_the_environment(app, monkeypatch):
    for prefix in ("VIT_LIGHTNING", "PL"):
        monkeypatch.setenv(f"{prefix}_FIT__TRAINER__MAX_EPOCHS", "7")
    done = app("fit", "--print_config")
    assert done.code == 0 and yaml.safe_load(done.out)["trainer"]["max_epochs"] != 7


def test_every_flag_that_is_named_exists(app, verbs):
    spoken = [code for code in INLINE + OF_EXPERIMENTS if code.startswith("--") or code.split()[0] in verbs]
    flags = {flag for code in spoken for flag in re.findall(r"--([\w.]+)", code)}
    known = {"data.help", "help", "ckpt_path"}
    for verb in ("fit", "predict", "probe", "inspect", "average", "benchmark", "plan", "doctor", "prepare"):
        known |= flags_of(app, verb, *NEEDED.get(verb, ()))
    for data in WITH_OWN_FLAGS:
        known |= flags_of(app, "fit", "--data", data, "--data.root", ".")
    for verb in FILE_VERBS:
        known |= set(re.findall(r"--(\w+)", app(verb, "--help").out))
    assert flags <= known, f"flags are named that do not exist: {sorted(flags - known)}"


OWN = (
    r"--data\.(also|download|verify|task|train|image_part|label_part|multi_label|split_file|split_column|group_column"
    r"|test_fraction|unlisted|label_column)\b"
)


def test_values_that_are_named_parse(app):
    """All of `--flag value` between the lines, in one command."""
    given = [code for code in INLINE if re.match(r"--(data|model|trainer|early_stopping)\.[\w.]+ [^A-Z\s]\S*$", code)]
    own = [code for code in given if re.match(OWN, code)]
    plain = [word for code in given if code not in own for word in shlex.split(code)]
    assert len(plain) > 20
    done = app("fit", *plain, "--print_config")
    assert done.code == 0, done.err
    for code in own:
        parsed = [
            app("fit", "--data", data, "--data.root", ".", *shlex.split(code), "--print_config")
            for data in WITH_OWN_FLAGS
        ]
        assert any(done.code == 0 for done in parsed), code


def test_every_verb_and_file_named_exists(verbs):
    assert len(verbs) >= 10
    for verb in verbs:
        assert f"`{verb}`" in README, f"the README lacks {verb}"
    for path in re.findall(
        r"(?<![\w./])(?:experiments|docker|vit_lightning|datamodules|tests|\.github)/[\w/.]*\w", SPOKEN
    ):
        assert (ROOT / path).exists(), path


def test_the_reading_path_is_as_long_as_it_says():
    counts = {path: len((ROOT / path).read_text().splitlines()) for path, _ in READING_PATH}
    assert len(counts) == 5
    for path, said in READING_PATH:
        assert int(said) == pytest.approx(counts[path], rel=0.1, abs=5), f"{path} has {counts[path]} lines"
    total = int(re.search(r"about ([\d,]+) lines", README)[1].replace(",", ""))
    assert total == pytest.approx(sum(counts.values()), abs=100), f"the reading path has {sum(counts.values())} lines"


def test_lines_are_short_enough_to_read():
    for line in SPOKEN.splitlines():
        assert len(line) <= (300 if line.startswith("|") else 400), line


def test_ci_runs_the_readmes_test_command():
    tests = next(line for line in LINES if "pytest" in line)
    command = re.search(r"python -m pytest.*", tests)[0]
    assert command in (ROOT / ".ci/run").read_text()
