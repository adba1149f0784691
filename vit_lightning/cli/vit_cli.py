"""ViTCLI: LightningCLI with our links, defaults, plug-ins, checkpoint rules and short errors."""

import gc
import re
import sys
import zipfile
from argparse import SUPPRESS
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, LearningRateMonitor, ModelCheckpoint, RichProgressBar
from lightning.pytorch.callbacks.progress import ProgressBar
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.plugins.io import TorchCheckpointIO

from vit_lightning.callbacks.early_stopping import EarlyStopping
from vit_lightning.callbacks.final_validation import FinalValidation
from vit_lightning.callbacks.finite_guard import FiniteGuard
from vit_lightning.callbacks.monitors import Monitors, direction
from vit_lightning.callbacks.plan import RunPlan
from vit_lightning.callbacks.predictions import Predictions
from vit_lightning.callbacks.progress import PlainProgress
from vit_lightning.callbacks.skipped_images import SkippedImages
from vit_lightning.callbacks.throughput import Throughput
from vit_lightning.cli.arguments import (
    LINKED,
    MODELS,
    PLUGINS,
    after_class,
    check_values,
    chooses_data,
    config_files,
    data_flags,
    import_class,
    load_plugins,
    negative_values,
    nested_files,
    option,
    read_facts,
    refuse_linked_keys,
    without_values,
)
from vit_lightning.cli.parser_errors import bare_flag, shorten
from vit_lightning.cli.warnings_filter import silence
from vit_lightning.commands.benchmark.verb import benchmark
from vit_lightning.commands.doctor.verb import doctor
from vit_lightning.commands.prepare.verb import prepare
from vit_lightning.errors import InputError
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_files import is_sharded, is_whole
from vit_lightning.runs.checkpoints import CheckpointFiles, LastCheckpoint, WholeCheckpoints
from vit_lightning.runs.loggers import MetricsCSV, TensorBoard
from vit_lightning.runs.random_state import RandomState
from vit_lightning.runs.record import RunRecord

set_parsing_settings(docstring_parse_attribute_docstrings=True)

DEFAULT_MODEL = "vit_lightning.classifier.Classifier"
DEFAULT_DATA = "datamodules.digits.Digits"
MONITORING = ("checkpoint", "early_stopping")
SCORING = ("validate", "test", "predict")
TINY = 1e-9
"""Least value of what must be more than 0."""
LEAST = {
    "accumulate_grad_batches": 1,
    "check_val_every_n_epoch": 1,
    "gradient_clip_val": 0,
    "limit_train_batches": TINY,
    "log_every_n_steps": 0,
    "num_sanity_val_steps": -1,
    "val_check_interval": TINY,
}
"""Numbers below which Lightning's Trainer divides by zero, does nothing, or climbs the gradient."""
LAST_SEED = 2**32 - 1
HELP = {
    "seed_everything": f"Seed of all that is random, 0 to {LAST_SEED}; true draws one, false sets none",
    "ckpt_path": "Checkpoint of a run: a path, or last or best of the newest run of this experiment",
    "checkpoint.monitor": "Metric that chooses the best checkpoint; unset: the model's own",
    "checkpoint.mode": "Whether max or min of the metric is best; auto: what its name tells",
    "trainer.default_root_dir": "Folder of all runs; unset: runs",
    "trainer.max_epochs": "Epochs after which the run ends, -1: never; unset: 1, if max_steps and max_time are too",
    "trainer.logger": "Loggers; unset: metrics.csv and TensorBoard in the run folder; false: none",
}
"""What Lightning's own words would say wrongly of our verbs."""
CHOSEN = "Flags of the default model and of every datamodule; --data.help NAME lists those of one."


class ViTParser(LightningArgumentParser):
    """Parser that reports wrong arguments without a wall of usage."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"prog": "python -m vit_lightning"} | kwargs)

    def error(self, message: str, ex: Exception | None = None) -> None:
        raise InputError(message) from ex

    def format_help(self) -> str:
        """Add the flags of the default model and of every datamodule, which a class chosen at run time would hide."""
        if "trainer" not in self.groups:  # that of --data.help NAME, which does not know the verb
            self.prog += " VERB"
            return super().format_help()
        self.prog = self.prog.replace(" [options]", "")
        flags = signature(getattr(VerbTrainer, self.prog.rpartition(" ")[2])).parameters.values()
        needed = "".join(f" --{f.name} VALUE" for f in flags if f.kind is f.KEYWORD_ONLY and f.default is f.empty)
        self.usage = f"{self.prog} [-c EXPERIMENT.yaml ...]{needed} [--flag value ...]"
        for action in self._actions:
            action.help = HELP.get(action.dest, action.help)
        text = super().format_help()
        from vit_lightning.classifier import Classifier
        from vit_lightning.data import ImageDataModule

        chosen = LightningArgumentParser(usage=SUPPRESS, add_help=False, description=CHOSEN)
        chosen.add_class_arguments(Classifier, "model", skip=set(LINKED))
        chosen.add_class_arguments(ImageDataModule, "data", instantiate=False)
        return f"{text}\n{chosen.format_help()}"


class VerbTrainer(WholeCheckpoints):
    """Lightning's Trainer, with our run verbs."""

    doctor = doctor
    benchmark = benchmark
    prepare = prepare


class ViTCLI(LightningCLI):
    """The door to fit, validate, test, predict and our run verbs."""

    def __init__(self, args: ArgsType = None) -> None:
        self.argv = list(sys.argv[1:] if args is None else args)
        silence()
        self.claimed: Path | None = None
        try:
            super().__init__(
                model_class=LightningModule,
                datamodule_class=LightningDataModule,
                trainer_class=VerbTrainer,
                save_config_callback=None,  # ours needs the run folder: see instantiate_trainer
                trainer_defaults={"enable_model_summary": False, "log_every_n_steps": 10},
                seed_everything_default=0,
                parser_kwargs={"parser_mode": "yaml"},
                parser_class=ViTParser,
                subclass_mode_model=True,
                subclass_mode_data=True,
                args=args,
                auto_configure_optimizers=False,
                load_from_checkpoint_support=False,
            )
        except BaseException:
            if self.claimed:
                folders.discard(self.claimed, self.stood)
            raise

    def subcommands(self) -> dict[str, set[str]]:
        """Verbs, each with the arguments that are no flags of its own; the one typed alone, since parsers are slow."""
        ours = ("doctor", "benchmark", "prepare")
        verbs = LightningCLI.subcommands() | {name: {"model", "datamodule"} for name in ours}
        typed = self.argv[0] if self.argv else None
        return {typed: verbs[typed]} if typed in verbs else verbs

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.set_defaults({"model": {"class_path": DEFAULT_MODEL}})
        parser.add_lightning_class_args(ModelCheckpoint, "checkpoint")
        parser.set_defaults({"checkpoint.filename": "best", "checkpoint.enable_version_counter": False})
        parser.set_defaults({"checkpoint.mode": "auto"})
        parser.add_lightning_class_args(LastCheckpoint, "last")
        parser.add_lightning_class_args(EarlyStopping, "early_stopping")
        for name in LINKED:
            parser.link_arguments(f"data.{name}", f"model.init_args.{name}", apply_on="instantiate")

    # Before parsing --------------------------------------------------------------------------------------------------

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Load the plug-ins that are named, find the checkpoint, and let its hyper-parameters be defaults.

        So flags beat YAML, YAML beats the checkpoint, and the checkpoint beats the code.
        """
        configs = config_files(self.argv)
        contents = [*configs.values(), *nested_files(self.argv)]
        load_plugins(" ".join(self.argv) + "\n".join(map(str, contents)))
        for flag in ("--data", "--model"):
            self.argv = after_class(self.argv, flag)
            import_class(flag, option(self.argv, flag))
        self.argv = negative_values(without_values(self.argv))
        refuse_linked_keys(self.argv, contents)
        self.experiment = next((path.stem for path in configs if path.parent.name != "hardware"), "default")
        self.root = Path(option(self.argv, "--trainer.default_root_dir") or "runs")
        self.trained: dict[str, Any] = {}
        verb = next((word for word in self.argv if word in self.subcommands()), None)
        if file := next((path for path, content in configs.items() if verb in content), None):
            raise InputError(f"-c {file} has the key {verb!r}; write model, data and trainer without it")
        checkpoint = self._checkpoint(verb)
        if checkpoint:
            self.argv += ["--ckpt_path", str(checkpoint)]
            self.trained = read_facts(checkpoint)
            own = {key: value for key, value in self.trained["hyper_parameters"].items() if key not in LINKED}
            self._parser(verb).set_defaults({"model": {"class_path": self.trained["model"], "init_args": own}})
        if verb and not chooses_data(self.argv, configs.values()):
            # No parser default: the values of its arguments would leak into those of the class chosen instead.
            self.argv.insert(self.argv.index(verb) + 1, f"--data={DEFAULT_DATA}")
        try:
            self.config = parser.parse_args(self.argv)
        except InputError as error:
            flags = self._parser(verb).get_defaults(skip_validation=True).keys() if verb else []
            flags = [name.replace("init_args.", "") for name in flags]
            flags = [name for name in flags if name.removeprefix("model.") not in LINKED]
            flags += data_flags(option(self.argv, "--data"))
            text = bare_flag(str(error), self.argv)
            text = text or shorten(str(error), flags, entry_points(group=PLUGINS).names, MODELS)
            raise InputError(self._of_another_model(text) or text) from None
        seed = self.config.get(f"{verb}.seed_everything", 0)
        if not 0 <= seed <= LAST_SEED:
            raise InputError(f"--seed_everything {seed} must lie between 0 and {LAST_SEED}; true draws one")
        if verb:
            self._check_values(self.config[verb])

    def _check_values(self, config: Namespace) -> None:
        """Refuse what neither the parser nor Lightning looks at."""
        for part in ("model", "data"):
            chosen = config[part]
            check_values(part, resolve_name(chosen.class_path), vars(chosen.get("init_args", Namespace())))
        for name, least in LEAST.items():
            value = config.trainer.get(name)
            if isinstance(value, int | float) and value < least:
                expected = "more than 0" if least == TINY else f"{least} or more"
                raise InputError(f"--trainer.{name} is {value:g}, expected {expected}")

    def _of_another_model(self, text: str) -> str | None:
        """What an experiment of the default model says to a checkpoint of another one, whose flags are others."""
        flag = re.search(r"there is no flag --(model\.(\w+)\S*?);", text)
        if not flag or not self.trained:
            return None
        own, theirs = (signature(resolve_name(path)).parameters for path in (DEFAULT_MODEL, self.trained["model"]))
        if flag[2] not in own or flag[2] in theirs:
            return None
        path, name = option(self.argv, "--ckpt_path"), self.trained["model"].rpartition(".")[2]
        return (
            f"--ckpt_path {path} holds a {name}, which has no {flag[1]}; "
            f"to train a Classifier that begins with its net, give --model.weights {path} in its place"
        )

    def _checkpoint(self, verb: str | None) -> Path | None:
        """The one that --ckpt_path names, or that of this very job before SLURM requeued it."""
        path = option(self.argv, "--ckpt_path")
        if verb and path:
            return self._find_checkpoint(path)
        return folders.interrupted(self.root, self.experiment) if verb == "fit" else None

    def _find_checkpoint(self, path: str) -> Path:
        if path in ("last", "best"):
            return folders.newest_checkpoint(self.root, self.experiment, path)
        if not Path(path).is_file() and not is_sharded(Path(path)):
            what = "a folder that holds no sharded checkpoint" if Path(path).is_dir() else "no such file"
            raise InputError(f"--ckpt_path {path}: {what}; give a checkpoint's path, or last, or best")
        if zipfile.is_zipfile(path) and not is_whole(Path(path)):
            raise InputError(f"--ckpt_path {path} is damaged: it does not hold what was written; give another one")
        return Path(path)

    def _parse_ckpt_path(self) -> None:
        """Lightning lets a checkpoint override flags here; `parse_arguments` has made it the default instead."""

    # After parsing ---------------------------------------------------------------------------------------------------

    def before_instantiate_classes(self) -> None:
        """A checkpoint replaces the weights a run began with, and the model's own metric chooses the best one."""
        config = self.config[self.subcommand]
        if self.subcommand in SCORING and not self.trained and not config.model.init_args.get("weights"):
            raise InputError(f"{self.subcommand} needs a trained net; give --ckpt_path last, best or a file")
        if self.trained and "weights" in config.model.init_args:
            config.model.init_args.weights = None
        monitor = getattr(resolve_name(config.model.class_path), "monitor", None)
        self.undirected = []
        for name in MONITORING:
            watching = config[name]
            if name == "early_stopping" and watching.patience is None:
                continue
            if watching.monitor is None and monitor:
                if watching.mode not in (None, "auto", monitor[1]):
                    raise InputError(f"--{name}.mode {watching.mode} is for a metric; give --{name}.monitor too")
                watching.monitor, watching.mode = monitor
            elif watching.mode not in ("min", "max"):
                watching.mode = direction(watching.monitor or "loss")
                if watching.mode is None:
                    self.undirected.append(name)
                    watching.mode = "min"

    def after_instantiate_classes(self) -> None:
        """What the data does not know, as with unlabelled images, comes from the checkpoint."""
        gc.freeze()  # half a million objects, which a collection amid a run would take 0.3 s to go through
        gc.enable()  # see `__main__.run`
        for name in LINKED:
            if self.trained and self.model.hparams.get(name) is None:
                self.model.hparams[name] = self.trained["hyper_parameters"].get(name)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        config = self._get(self.config_init, "trainer")
        callbacks = list(config.get("callbacks") or [])
        if config.get("enable_progress_bar") is not False and not any(isinstance(c, ProgressBar) for c in callbacks):
            callbacks.append(RichProgressBar() if sys.stdout.isatty() else PlainProgress())
        callbacks.append(SkippedImages())
        if config.get("max_epochs") is None and config.get("max_steps") == -1 and config.get("max_time") is None:
            kwargs["max_epochs"] = 1
        checkpoint = self._get(self.config, "ckpt_path")
        self.folder = folders.folder_of(Path(checkpoint)) if checkpoint else None
        if self.subcommand == "predict":
            chosen = option(self.argv, "--trainer.default_root_dir")
            callbacks.append(Predictions(Path(chosen or self.folder or "") / "predictions.csv"))
        if self.subcommand != "fit":
            kwargs["logger"] = config.get("logger") or False
        else:
            watching = {name: self._get(self.config_init, name) for name in MONITORING}
            callbacks += [
                Monitors(watching, self.undirected),
                RunPlan(),
                FinalValidation(),
                RandomState(),
                Throughput(),
            ]
            if not config.get("fast_dev_run"):
                if self.folder is None:
                    self.stood = folders.standing(self.root)
                    self.folder = self.claimed = folders.claim(self.root, self.experiment)
                kwargs["logger"] = self._loggers(config.get("logger"))
                callbacks += [RunRecord(self._parser("fit"), self.config["fit"], self.folder)]
                callbacks += [LearningRateMonitor("step")] if kwargs["logger"] else []
            callbacks.append(FiniteGuard(self.folder))
        for key in ("checkpoint", "last"):
            saved = self._get(self.config_init, key)
            saved.dirpath = saved.dirpath or (str(self.folder / folders.CHECKPOINTS) if self.folder else None)
        try:
            trainer = super().instantiate_trainer(callbacks=callbacks, **kwargs)
        except (ValueError, TypeError) as error:
            raise InputError(f"{error} (a matter of --trainer)") from error
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
            trainer.strategy.checkpoint_io = CheckpointFiles()
        return trainer

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Callback]) -> Trainer:
        """Lightning adds `checkpoint` and `last` even where --trainer.enable_checkpointing is false, then refuses."""
        if config.get("enable_checkpointing") is False:
            callbacks = [callback for callback in callbacks if not isinstance(callback, Checkpoint)]
        return super()._instantiate_trainer(config, callbacks)

    def _loggers(self, chosen: Any) -> Any:
        if chosen is not None and chosen is not True:
            return chosen
        step = self.trained.get("global_step", 0)
        tensorboard = TensorBoard(self.folder, name="", version="tensorboard", purge_step=step or None)
        return [MetricsCSV(self.folder, resume_step=step), tensorboard]

    def predict(self, **kwargs: Any) -> None:
        """Predictions go to a file, not into memory."""
        self.trainer.predict(**kwargs | {"return_predictions": False})

    def after_fit(self) -> None:
        """Say where everything lies; a run that made no step has failed."""
        if self.trainer.global_step == 0:
            raise InputError(
                "the run made no optimiser step; raise --trainer.max_epochs, --trainer.max_steps or "
                "--trainer.limit_train_batches"
            )
        if self.trained.get("global_step") == self.trainer.global_step and self.trainer.is_global_zero:
            print(
                f"nothing was left to train: the checkpoint has {self.trainer.global_step} optimiser steps; "
                "raise --trainer.max_epochs or --trainer.max_steps to go on",
                flush=True,
            )
        if self.trainer.is_global_zero and self.folder:
            best = self._get(self.config_init, "checkpoint")
            score = "" if best.best_model_score is None else f" ({best.monitor} {float(best.best_model_score):.4f})"
            if best.best_model_path:
                print(f"best     {best.best_model_path}{score}")
            print(f"run      {self.folder}", flush=True)
