"""ViTCLI: LightningCLI with our links, defaults, plug-ins, checkpoint rules and short errors."""

import sys
from contextlib import ExitStack
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from jsonargparse import set_parsing_settings
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins.io import TorchCheckpointIO

from vit_lightning.callbacks.defaults import Setting, default_callbacks
from vit_lightning.callbacks.early_stopping import EarlyStopping
from vit_lightning.callbacks.monitors import MONITORING, own_metric, resolve
from vit_lightning.callbacks.progress import RunProgress
from vit_lightning.callbacks.require import BOUNDED, Require, required
from vit_lightning.cli import launched
from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.arithmetic import default_precision
from vit_lightning.cli.built_model import complete
from vit_lightning.cli.checked_values import check_values
from vit_lightning.cli.config_files import DATA_FACTS, data_named, models_named, place_of
from vit_lightning.cli.exceptions import input_error, trainer_error
from vit_lightning.cli.garbage_collection import resume_after_building
from vit_lightning.cli.help import OUR_SENTENCES
from vit_lightning.cli.logger_places import made, take_unplaced
from vit_lightning.cli.named_run import (
    BEGINNING,
    SCORING,
    check_name,
    config_of,
    looks_at_scored,
    no_such_run,
    scored_sets,
)
from vit_lightning.cli.named_weights import PROGRAM, probabilities_of
from vit_lightning.cli.own_code import import_chosen
from vit_lightning.cli.parser import ViTParser
from vit_lightning.cli.parser_errors import bare_flag, shorten
from vit_lightning.cli.plugins import MODELS, data_flags, datamodule_names
from vit_lightning.cli.precedence import (
    DEFAULT_MODEL,
    OURS,
    as_defaults,
    find_checkpoint,
    of_another_model,
    read_facts,
    take_net,
    take_published,
)
from vit_lightning.cli.run_data import is_own, overridden, source_of
from vit_lightning.cli.run_words import chosen_classes, read_words, take_settings
from vit_lightning.cli.verb_trainer import OWN_VERBS, VerbTrainer
from vit_lightning.cli.warnings_filter import silence
from vit_lightning.commands.report.verb import check_installed, report_on
from vit_lightning.contracts import KnowsRun
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError
from vit_lightning.runs import folders
from vit_lightning.runs.checkpoints import CheckpointFiles, LastCheckpoint
from vit_lightning.runs.lock import locked
from vit_lightning.runs.loggers import MetricsCSV, tensorboards
from vit_lightning.runs.record import RunRecord
from vit_lightning.training.construction import nets_built_by_trainers

set_parsing_settings(docstring_parse_attribute_docstrings=True)


class ViTCLI(LightningCLI):
    """The run verbs, from words to a trained net.

    LightningCLI's constructor does all of it, and calls the methods here in their order: `subcommands` and
    `add_arguments_to_parser` make the parser, `parse_arguments` reads the words, `before_instantiate_classes` settles
    what the config leaves open, `after_instantiate_classes` and `instantiate_trainer` complete what is built, then the
    verb runs; after a fit comes `after_fit`.
    """

    def __init__(self, args: ArgsType = None) -> None:
        self.line = CommandLine(sys.argv[1:] if args is None else args)
        silence()
        self.claimed: Path | None = None
        self.run_is_named = False
        with ExitStack() as self.until_end:
            self._run(args)

    def _run(self, args: ArgsType) -> None:
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
        except BaseException as error:
            if self.claimed:
                folders.discard(self.claimed, self.stood)
            if self.run_is_named and isinstance(error, InputError):  # without the flag, which nobody typed
                error.args = (str(error).removeprefix("--ckpt_path "),)
            raise

    def subcommands(self) -> dict[str, set[str]]:
        """Verbs, each with the arguments that are no flags of its own; the one typed alone, since parsers are slow."""
        verbs = LightningCLI.subcommands() | {name: {"model", "datamodule"} for name in OWN_VERBS}
        typed = self.line.verb
        return {typed: verbs[typed]} if typed in verbs else verbs

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.set_defaults({"model": {"class_path": DEFAULT_MODEL}})
        parser.add_lightning_class_args(ModelCheckpoint, "checkpoint")
        parser.set_defaults({"checkpoint.filename": "best", "checkpoint.enable_version_counter": False})
        parser.set_defaults({"checkpoint.mode": "auto"})
        parser.add_lightning_class_args(LastCheckpoint, "last")
        parser.add_lightning_class_args(EarlyStopping, "early_stopping")
        parser.add_argument("--name", type=str | None, default=None, help=OUR_SENTENCES["name"][0])
        for name in BOUNDED:
            parser.add_argument(f"--{name}", type=dict[str, float] | None, default=None, help=OUR_SENTENCES[name][0])
        parser.add_argument("--pictures", type=bool, default=True, help=OUR_SENTENCES["pictures"][0])
        parser.add_argument("--report", type=bool, default=False, help=OUR_SENTENCES["report"][0])
        for name in DATA_FACTS:
            parser.link_arguments(f"data.{name}", f"model.init_args.{name}", apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Load the plug-ins that are named, find the checkpoint, and let its hyper-parameters be defaults.

        So flags beat YAML, YAML beats the checkpoint, and the checkpoint beats the code.
        """
        verb, line = self.line.verb, self.line
        named = self.named = read_words(line)
        run = named.run
        self.run_is_named = run is not None and not run.lends
        self.trained: dict[str, Any] = {}
        typed = str(run.checkpoint) if run and not named.lender else line.value("--ckpt_path")
        checkpoint = find_checkpoint(verb, typed, named.root, named.experiment)
        if checkpoint:
            check_name(line, checkpoint)
        if checkpoint and verb == "fit" and not line.has("--print_config"):
            checkpoint = self._held(checkpoint)
        if checkpoint:
            own = [config_of(run.folder, verb)] if run and run.is_folder else []
            for settings in own:
                import_chosen({"model": settings.get("model")}, folders.configs(run.folder)[-1])
            line.set("--ckpt_path", str(checkpoint))
            self.trained = read_facts(checkpoint, models_named(line, [*named.contents, *own]), goes_on=verb == "fit")
            self._parser(verb).set_defaults(as_defaults(self.trained))
        elif loss := probabilities_of(line):
            self._parser(verb).set_defaults(as_defaults({"model": DEFAULT_MODEL, "hyper_parameters": {"loss": loss}}))
        elif looks_at_scored(line, run):
            self.trained = read_facts(folders.trained_checkpoint(run.folder), models_named(line, named.contents))
            self._parser(verb).set_defaults(as_defaults(self.trained))
        take_settings(line, named, checkpoint, self.trained)
        if line.has("--help"):
            self._parser(verb).chosen = chosen_classes(line, named.contents)
        try:
            self.config = parser.parse_args(line.words())
        except InputError as error:
            raise InputError(self._sentence(str(error))) from None
        except OverflowError as error:
            long = next(
                (flag for flag, value in line if value and value.lstrip("+-").isdecimal() and len(value) > 300), ""
            )
            raise InputError(f"{long or 'a number'} is too large: {error}") from None
        check_values(self.config[verb])

    def _held(self, checkpoint: Path) -> Path:
        """Let no other process train in the folder of a checkpoint from which a run goes on; return its newest name."""
        folder = folders.folder_of(checkpoint)
        if folder is None:
            return checkpoint
        self.until_end.enter_context(locked(folder))
        # What another process had yet to give its name, or was about to replace.
        return checkpoint if checkpoint.exists() else folders.checkpoint_of(folder, "last") or checkpoint

    def _sentence(self, message: str) -> str:
        """What the parser reports, in one sentence that names the flag."""
        if bare := bare_flag(message, self.line):
            return bare
        flags = self._parser(self.line.verb).get_defaults(skip_validation=True).keys()
        flags = [name.replace("init_args.", "") for name in flags]
        flags = [name for name in flags if name.removeprefix("model.") not in DATA_FACTS]
        named = data_named(self.line, self.named.configs.values())
        flags += data_flags(named[-1] if named else None)
        if "unrecognized arguments" in message and (said := no_such_run(self.line, self.named.root, flags)):
            return said
        text = shorten(message, flags, datamodule_names(), MODELS)
        theirs = self.trained and of_another_model(text, self.trained["model"], self.line.value("--ckpt_path"))
        return theirs or place_of(self.line, self.named.configs, text) + text

    def _parse_ckpt_path(self) -> None:
        """Lightning lets a checkpoint override flags here; `parse_arguments` has made it the default instead."""

    def instantiate_classes(self) -> None:
        """Leave the net to the Trainer, which builds it on its device once all facts of the data are known."""
        trainer = self.config[self.subcommand].trainer
        self.chosen_loggers = trainer.get("logger")
        self.unplaced = take_unplaced(trainer)
        try:
            with nets_built_by_trainers():
                super().instantiate_classes()
        except ValueError as error:
            if (said := input_error(error)) is None:
                raise
            raise InputError(place_of(self.line, self.named.configs, said) + said) from error

    def before_instantiate_classes(self) -> None:
        """A checkpoint replaces the weights a run began with, and the model's own metric chooses the best one."""
        config = self.config[self.subcommand]
        has_net = config.model.class_path == PROGRAM or config.model.init_args.get("weights")
        if self.subcommand in SCORING and not self.trained and not has_net:
            raise InputError(
                f"{self.subcommand} needs a trained net; give --ckpt_path last, best or a file, --model.weights FILE, "
                f"or a run: {self.subcommand} RUN_FOLDER"
            )
        if self.subcommand == "fit" and config.report:
            check_installed()
        if self.trained:
            take_net(config.model.init_args, self.trained)
        if self.trained and "weights" in config.model.init_args:
            config.model.init_args.weights = None
        elif self.subcommand in ("fit", "doctor", "plan"):
            take_published(config.model.init_args)
        if precision := default_precision(self.subcommand, config.trainer, self.trained):
            config.trainer.precision = precision
        several = bool((config.data.get("init_args") or {}).get("multi_label"))
        self.undirected = resolve(config, own_metric(resolve_name(config.model.class_path), several))

    def after_instantiate_classes(self) -> None:
        """What the data does not know, as with unlabelled images, comes from the checkpoint."""
        resume_after_building()
        members = self.named.members if self.subcommand != "average" else []
        checkpoint = self._get(self.config, "ckpt_path")
        verb = self.subcommand
        if looks_at_scored(self.line, self.named.run) and isinstance(self.datamodule, ImageDataModule):
            verb = "test"
            self.datamodule.scored_alone = tuple(f"{name}_set" for name in scored_sets(self.line))
        complete(verb, self.model, self.datamodule, self.trained, members, checkpoint)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Add the run folder, the loggers and the default callbacks."""
        config = self._get(self.config_init, "trainer")
        self.config[self.subcommand].trainer.logger = self.chosen_loggers
        if config.get("max_epochs") is None and config.get("max_steps") == -1 and config.get("max_time") is None:
            kwargs["max_epochs"] = 1
        kwargs |= launched.settings(self.subcommand, config)
        checkpoint = self._get(self.config, "ckpt_path")
        self.folder = folders.folder_of(Path(checkpoint)) if checkpoint else self.named.lender
        if self.subcommand in BEGINNING:
            self.folder = None  # nothing is to be written into the run whose settings they take
        if self.subcommand != "fit":
            kwargs["logger"] = config.get("logger") or False
            if self.unplaced:
                kwargs["logger"] = [*_as_list(config.get("logger")), *self._placed(self.folder or self.named.root)]
        elif not config.get("fast_dev_run"):
            if self.folder is None:
                self.stood = folders.standing(self.named.root)
                self.folder = self.claimed = folders.claim(self.named.root, self.named.experiment)
                self.until_end.enter_context(locked(self.folder))
            kwargs["logger"] = self._loggers(config.get("logger"))
        if isinstance(self.datamodule, KnowsRun):
            run = self.named.run
            self.datamodule.run_folder = run.folder if run and run.lends else self.folder
            self.datamodule.ignores_split = self.line.value("--data.split_file") == "null"
        for key in ("checkpoint", "last"):
            saved = self._get(self.config_init, key)
            saved.dirpath = saved.dirpath or (str(self.folder / folders.CHECKPOINTS) if self.folder else None)
        given = _as_list(config.get("callbacks"))
        bounds: list[Callback] = []
        for flag in BOUNDED:
            values, is_typed = self._get(self.config, flag), self.line.has(f"--{flag}")
            bounds += required(self.subcommand, values, is_typed, self._further_sets(given), flag)
        bounds += [callback for callback in given if isinstance(callback, Require)]
        given = [callback for callback in given if callback not in bounds]
        # What a bound ends has printed and written its scores before.
        callbacks = [*given, *default_callbacks(self._setting(config, given, bool(kwargs.get("logger")))), *bounds]
        if any(isinstance(callback, RunProgress) for callback in callbacks):
            kwargs["enable_progress_bar"] = True  # false has made lines of the bar; Lightning would take it for none
        try:
            trainer = super().instantiate_trainer(callbacks=callbacks, **kwargs)
        except (ValueError, TypeError, ImportError) as error:
            raise InputError(trainer_error(error) or f"{error} (a matter of --trainer)") from error
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
            trainer.strategy.checkpoint_io = CheckpointFiles()
        return trainer

    def _further_sets(self, given: list[Callback]) -> list[str] | None:
        """Names of the sets whose scores are logged beside the split's; None: a class of others may log any."""
        config = self.config[self.subcommand]
        is_ours = config.model.class_path in OURS and config.data.class_path.startswith("datamodules.")
        if not is_ours or any(not isinstance(one, Require) for one in given):
            return None
        return [*(config.data.init_args.get("also") or ())]

    def _setting(self, config: dict[str, Any], given: list[Callback], logs: bool) -> Setting:
        place = Path(self.line.value("--trainer.default_root_dir") or self.folder or "")
        data = self.config[self.subcommand].get("data")
        others = overridden(data, self.folder)
        if self.subcommand == "predict":
            folders.make(place)
        return Setting(
            verb=self.subcommand,
            trainer=config,
            given=given,
            folder=self.folder,
            predictions=place / "predictions.csv",
            logs=logs,
            watching={name: self._get(self.config_init, name) for name in MONITORING},
            undirected=self.undirected,
            record=lambda: RunRecord(self._parser("fit"), self.config["fit"], self.folder),
            checkpoint=self._get(self.config, "ckpt_path"),
            source=source_of(data) | others,
            is_own=is_own(data, self.folder) and not others and not getattr(self.datamodule, "ignores_split", False),
            pictures=self._get(self.config, "pictures"),
        )

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Callback]) -> Trainer:
        """Lightning adds `checkpoint` and `last` even where --trainer.enable_checkpointing is false, then refuses."""
        if config.get("enable_checkpointing") is False:
            callbacks = [callback for callback in callbacks if not isinstance(callback, Checkpoint)]
        return super()._instantiate_trainer(config, callbacks)

    def _loggers(self, chosen: Any) -> Any:
        if chosen is False:
            return False
        step = self.trained.get("global_step", 0)
        own = [] if chosen is True else _as_list(chosen)
        own += self._placed(self.folder)
        return [MetricsCSV(self.folder, resume_step=step), *tensorboards(self.folder, step), *own]

    def _placed(self, folder: Path) -> list[Logger]:
        return [made(waiting, folder) for waiting in self.unplaced]

    def after_fit(self) -> None:
        """A run that made no step has failed; any other is reported on, if that is asked for."""
        if self.trainer.global_step == 0:
            raise InputError(
                "the run made no optimiser step; raise --trainer.max_epochs, --trainer.max_steps or "
                "--trainer.limit_train_batches"
            )
        if self._get(self.config, "report") and self.folder and self.trainer.is_global_zero:
            report_on(self.folder)


def _as_list(value: Any) -> list[Any]:
    """Return what a flag holds that takes one or a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
