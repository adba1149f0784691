"""Every shipped experiment is a lab note whose commands parse to the recipe, and no layer touches another's keys."""

import re
import shlex
from functools import cache
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml
from jsonargparse import Namespace
from lightning.pytorch.cli import LightningArgumentParser

from vit_lightning.augment import Augment
from vit_lightning.augment.per_image import train_transform
from vit_lightning.callbacks import HyperRule
from vit_lightning.cli.config_files import DATA_FACTS
from vit_lightning.cli.plugins import datamodule_names, load_plugins
from vit_lightning.cli.vit_cli import ViTCLI
from vit_lightning.commands.sweep.plan import SweepPlan, read_plan
from vit_lightning.compute.cost import macs
from vit_lightning.models import NetConfig

FOLDER = Path(__file__).parent.parent / "experiments"
EXPERIMENTS = sorted(FOLDER.glob("*.yaml"))
SWEEPS = sorted((FOLDER / "sweeps").glob("*.yaml"))
OVERLAYS = sorted((FOLDER / "hardware").glob("*.yaml"))
NOTE = ("Source:", "Expected:", "Cost:", "Command:")
CLASSES = {
    "CIFAR10": 10,
    "CIFAR100": 100,
    "Digits": 10,
    "Flowers": 102,
    "ImageFolder": 1000,
    "ImageNet1k": 1000,
    "ImageNet21k": 21_843,
    "Pets": 37,
    "Synthetic": 4,
    "WebScale": 18_291,
}
IMAGES = {"CIFAR10": 49_000, "ImageNet1k": 1_268_355, "ImageNet21k": 14_094_722, "WebScale": 303_000_000}
"""Training images of the sets that are trained on by epochs, held-out ones left aside."""
DOOR = "python -m vit_lightning "


def note(path: Path) -> list[tuple[str, str]]:
    """The entries of an experiment's note, `Label: text`, without what stands in brackets."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("#")]
    text = re.sub(r"\n#   ", " ", "\n".join(lines))
    entries = re.findall(r"^# ([^:\n]+): +(.*)$", text, flags=re.M)
    return [(label, re.sub(r" \([^()]*\)", "", value)) for label, value in entries]


def commands(path: Path) -> dict[str, list[str]]:
    """The note's commands as words; an entry of flags alone goes on from Command."""
    entries = note(path)
    own = dict(entries)["Command"]
    lines = {label: text if text.startswith(DOOR) else f"{own} {text}" for label, text in entries}
    kept = {label for label, text in entries if text.startswith((DOOR, "--"))}
    return {label: shlex.split(line.removeprefix(DOOR)) for label, line in lines.items() if label in kept}


COMMANDS = {(path.stem, label): words for path in EXPERIMENTS for label, words in commands(path).items()}
FITS = {key: words for key, words in COMMANDS.items() if words[0] == "fit"}


class Parser(ViTCLI):
    """The real command line's parser, with every plug-in's classes known, that stops before it parses."""

    def __init__(self) -> None:
        load_plugins(" ".join(datamodule_names()))
        super().__init__(["fit"])

    def parse_arguments(self, parser, args) -> None:
        self.ready = parser
        raise StopIteration


@cache
def parser() -> LightningArgumentParser:
    cli = Parser.__new__(Parser)
    with pytest.raises(StopIteration):
        cli.__init__()
    return cli.ready


class Run(NamedTuple):
    """What a command of a note asks for."""

    config: Namespace
    net: NetConfig
    classes: int
    batch: int
    steps: float
    images: float


@cache
def understand(*key: str) -> Run:
    """Parse a command, and count what it trains on: images of a batch, over all devices, steps, and images in all."""
    words = [str(FOLDER.parent / word) if word.startswith("experiments/") else word for word in FITS[key]]
    config = parser().parse_args(words).fit
    net = NetConfig(**config.model.init_args.net.as_dict())
    if net.variant is None and (started := re.search(r"([BLH])_(\d\d)|bit", config.model.init_args.weights)):
        net.variant = "R50x1" if started[0] == "bit" else f"{started[1]}/{started[2]}"
    trainer, init = config.trainer, config.data.init_args
    devices = trainer.devices if isinstance(trainer.devices, int) else 1
    data = config.data.class_path.rpartition(".")[2]
    batch = init.batch_size * devices * trainer.accumulate_grad_batches
    if trainer.max_steps > 0:
        return Run(config, net, CLASSES[data], batch, trainer.max_steps, trainer.max_steps * batch)
    if trainer.max_epochs == -1:
        steps = HyperRule().steps_for(IMAGES.get(data, 1500))
        return Run(config, net, CLASSES[data], batch, steps, steps * batch)
    images = IMAGES.get(data, 1500) * trainer.max_epochs * init.fraction
    return Run(config, net, CLASSES[data], batch, images // batch, images)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_is_a_lab_note(path):
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert header[0].startswith(f"# {path.stem}: ")
    for part in NOTE:
        assert any(part in line for line in header), f"{path.name}: the note lacks {part}"
    assert any(f"-c experiments/{path.name}" in line for line in header), "the command names another file"


def test_the_table_lists_every_experiment():
    listed = re.findall(r"^\| `(\w+\.yaml)`", (FOLDER / "README.md").read_text(), flags=re.M)
    assert sorted(set(listed)) == [path.name for path in EXPERIMENTS]


def plan(path: Path) -> SweepPlan:
    """A shipped plan, with what the command of its note sets."""
    command = shlex.split(dict(note(path))["Command"])
    words = command[command.index("--set") + 1 :] if "--set" in command else []
    given = dict(word.split("=", 1) for word in takewhile(lambda word: not word.startswith("--"), words))
    return read_plan(path, given, Path("runs"))


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_is_a_lab_note_that_the_table_lists(path):
    header = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert header[0].startswith(f"# {path.stem}: ")
    for part in NOTE:
        assert any(part in line for line in header), f"{path.name}: the note lacks {part}"
    assert dict(note(path))["Command"].startswith(f"{DOOR}sweep experiments/sweeps/{path.name}")
    assert f"`sweeps/{path.name}`" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_the_commands_of_a_sweep_parse(path):
    """Those of the first cell, and of the cells that differ from it in one label: every label once."""
    read = plan(path)
    for cells in (read.cells, read.choice.plan.cells if read.choice else []):
        for cell in (cell for cell in cells if len(cell.labels.items() - cells[0].labels.items()) <= 1):
            for _, *line in cell.lines:  # all verbs have the flags of fit
                words = [str(FOLDER.parent / word) if word.startswith("experiments/") else word for word in line]
                parser().parse_args(["fit", *words])


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_leaves_the_facts_of_the_data_to_the_data(path):
    content = yaml.safe_load(path.read_text())
    model = content["model"]
    assert not {*model, *model.get("init_args", {})} & set(DATA_FACTS)
    assert "class_path" in content["data"]


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: path.stem)
def test_an_overlay_holds_a_trainer_alone(path):
    assert set(yaml.safe_load(path.read_text())) == {"trainer"}


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_an_experiment_parses(app, path):
    done = app("fit", "-c", path, "--print_config")
    assert done.code == 0, done.err
    assert yaml.safe_load(done.out)["data"]["class_path"]


@pytest.mark.parametrize("key", FITS, ids="-".join)
def test_a_command_of_a_note_builds_its_run(key):
    """Without storage and data: the net of its size, the optimiser, the transforms, and a warm-up that fits."""
    run = understand(*key)
    module, _, name = run.config.model.class_path.rpartition(".")
    init = run.config.model.init_args.as_dict() | {"net": run.net, "num_classes": run.classes}
    init |= {"image_size": run.config.data.init_args.image_size, **({"weights": None} if "weights" in init else {})}
    model = getattr(import_module(module), name)(**init)
    with torch.device("meta"):
        model.net = model.build_net()
    assert model.optim.build(model.trainable())
    model.schedule.check(run.steps)
    augment = Augment(**run.config.data.init_args.augment.as_dict())
    size = model.net.image_size
    image = torch.zeros(model.config.channels, 40, 60, dtype=torch.uint8)
    assert train_transform(augment, size)(image).shape[1:] == size


OF_PAPERS = [
    key for key in FITS if key[0].startswith(("pretrain", "finetune", "masked_b16")) and key[0] != "finetune_few"
]


@pytest.mark.parametrize("key", OF_PAPERS)
def test_the_batch_is_the_papers(key):
    run = understand(*key)
    tuned = next(word for word in FITS[key] if word.endswith(".yaml")).startswith("experiments/finetune")
    assert run.batch == (512 if tuned else 4096)


# The paper's tables 3 and 4, AugReg's (arXiv 2106.10270) and BiT's (arXiv 1912.11370) recipes, and arXiv 2205.01580:
# learning rate, weight decay, dropout, shape, warm-up, epochs or steps, clipping.
TABLE = """
pretrain_i21k           Command   1e-3  0.03  0.1  linear  10000  90     -
pretrain_i21k           B/32      1e-3  0.03  0.1  linear  10000  90     -
pretrain_i21k           L/16      1e-3  0.03  0.1  linear  10000  90     -
pretrain_i21k           L/32      1e-3  0.03  0.1  linear  10000  90     -
pretrain_i1k            Command   3e-3  0.3   0.1  cosine  10000  300    1
pretrain_i1k            L/16      3e-3  0.3   0.1  cosine  10000  300    1
pretrain_webscale       Command   8e-4  0.1   0    linear  10000  7      -
pretrain_webscale       B/32      8e-4  0.1   0    linear  10000  7      -
pretrain_webscale       L/32      6e-4  0.1   0    linear  10000  7      -
pretrain_webscale       L/16      4e-4  0.1   0    linear  10000  14     -
pretrain_webscale       H/14      3e-4  0.1   0    linear  10000  14     -
pretrain_webscale       R50+B/16  8e-4  0.1   0    linear  10000  7      -
pretrain_webscale       R50+L/32  2e-4  0.1   0    linear  10000  7      -
pretrain_webscale       R50+L/16  4e-4  0.1   0    linear  10000  7      -
pretrain_webscale_resnet Command  1e-3  0.1   0    linear  10000  7      -
pretrain_webscale_resnet R50x2    1e-3  0.1   0    linear  10000  7      -
pretrain_webscale_resnet R101x1   8e-4  0.1   0    linear  10000  7      -
pretrain_webscale_resnet R152x1   6e-4  0.1   0    linear  10000  7      -
pretrain_webscale_resnet R152x2   6e-4  0.1   0    linear  10000  7      -
pretrain_webscale_resnet SGD      0.48  1e-4  0    step    5000   40     -
pretrain_bit_i21k       Command   0.48  1e-4  0    step    5000   90     -
pretrain_augreg_i21k    Command   1e-3  0.1   0    cosine  10000  300    1
pretrain_augreg_i21k    S/16      1e-3  0.03  0    cosine  10000  300    1
pretrain_augreg_i21k    R50+L/32  1e-3  0.1   0.1  cosine  10000  300    1
pretrain_augreg_i1k     Command   1e-3  0.1   0.1  cosine  10000  300    1
scratch_i1k_s16         Command   1e-3  0.1   0    cosine  10000  90     1
masked_b16_jft          Command   2e-4  0     0    cosine  10000  1e6    -
finetune_i1k            Command   0.03  0     0    cosine  500    20000  1
finetune_cifar10        Command   0.01  0     0    cosine  500    10000  1
finetune_cifar10        CIFAR-100 0.01  0     0    cosine  500    10000  1
finetune_pets           Command   0.01  0     0    cosine  100    500    1
finetune_pets           Flowers   0.01  0     0    cosine  100    500    1
finetune_augreg         Command   0.003 0     0    cosine  100    500    1
finetune_augreg         CIFAR-100 0.01  0     0    cosine  500    10000  1
finetune_augreg         ImageNet-1k 0.03 0    0    cosine  500    20000  1
finetune_bit            Command   0.003 0     0    step    500    20000  -
"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines(), ids=lambda row: " ".join(row.split()[:2]))
def test_the_numbers_are_the_papers(row):
    stem, label, lr, decay, dropout, shape, warmup, length, clip = row.split()
    config = understand(stem, label).config
    recipe, trainer = config.model.init_args, config.trainer
    assert (recipe.optim.lr, recipe.optim.weight_decay) == (float(lr), float(decay))
    assert (recipe.net.dropout or 0) == float(dropout)
    assert (recipe.schedule.decay, recipe.schedule.warmup_steps) == (shape, int(warmup))
    assert max(trainer.max_epochs, trainer.max_steps) == float(length)
    assert (trainer.gradient_clip_val or 0) == (0 if clip == "-" else float(clip))
    rules = {"finetune": "sgd", "pretrain_bit": "sgd", "pretrain_augreg": "adamw", "pretrain": "adam", "masked": "adam"}
    rule = next(rule for start, rule in (rules | {"scratch": "adamw"}).items() if stem.startswith(start))
    assert recipe.optim.name == ("sgd" if label == "SGD" else rule)
    assert tuple(recipe.optim.betas) == (0.9, 0.999) and recipe.optim.momentum == 0.9


@pytest.mark.parametrize("path", [path for path in EXPERIMENTS if "exaFLOPs" in path.read_text()], ids=lambda p: p.stem)
def test_the_cost_is_what_the_net_needs(path):
    """exaFLOPs as in the paper's table 6: 6 x multiply-accumulates x images."""
    text = re.sub(r"\n#   ", " ", path.read_text())
    total, each, images = re.search(
        r"([\d.]+) exaFLOPs \(6 x ([\d.]+) G multiply-accumulates x ([\d.e+]+)", text
    ).groups()
    run = understand(path.stem, "Command")
    needed = macs(run.net, run.config.data.init_args.image_size, run.classes)
    assert float(each) * 1e9 == pytest.approx(needed, abs=0.51 * 10 ** (9 - len(each.partition(".")[2])))
    assert float(images) == pytest.approx(run.images, rel=2e-3)
    digits = len(total.replace(".", "").lstrip("0"))
    assert float(total) == pytest.approx(6e-18 * needed * run.images, rel=0.6 * 10 ** (1 - digits))


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: path.stem)
def test_an_overlay_stacks_on_an_experiment(app, path):
    done = app("fit", "-c", FOLDER / "smoke.yaml", "-c", path, "--print_config")
    assert done.code == 0, done.err
    trainer = yaml.safe_load(done.out)["trainer"]
    wanted = yaml.safe_load(path.read_text())["trainer"]
    assert {name: trainer[name] for name in wanted if name in ("accelerator", "devices", "precision")} == {
        name: wanted[name] for name in wanted if name in ("accelerator", "devices", "precision")
    }
    assert trainer["max_epochs"] == 3


def test_the_smoke_experiment_learns(app):
    done = app("fit", "-c", FOLDER / "smoke.yaml")
    assert done.code == 0, done.err


def test_the_smoke_experiment_fails_if_nothing_is_learnt(app):
    done = app("fit", "-c", FOLDER / "smoke.yaml", "--model.optim.lr", 0, "--trainer.max_epochs", 1)
    assert done.code == 1
    assert "val/top1 ended at" in done.err.splitlines()[-1]


def test_a_shipped_experiment_can_be_tried_for_one_step(app):
    done = app("fit", "-c", FOLDER / "digits.yaml", "--trainer.fast_dev_run", "true")
    assert done.code == 0, done.err
    assert not Path("runs").exists()


def test_the_tables_are_short_enough_to_read():
    for line in (FOLDER / "README.md").read_text().splitlines():
        assert len(line) <= (300 if line.startswith("|") else 400), line
