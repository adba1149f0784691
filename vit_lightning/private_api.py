"""What of other libraries' private interface this code uses: one table, and the functions that use it.

A private name may change in any release. Each one stands here, a test looks it up in the installed library, another
test finds uses that the table lacks, and pyproject.toml bounds each library by the newest release that was tested.
"""

import re
import threading
from collections.abc import Callable
from multiprocessing.queues import Queue
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from filelock import FileLock
    from lightning.fabric.plugins.environments import ClusterEnvironment
    from lightning.pytorch import Trainer


class PrivateName(NamedTuple):
    """A private name of another library."""

    library: str
    """Its distribution, as pyproject.toml names it; python for the standard library."""
    name: str
    """Dotted: the module or class, and the attribute."""
    room: str
    """Folder or file of vit_lightning that uses it."""
    reason: str
    parameters: tuple[str, ...] | None = None
    """Those of a function or method that can be inspected."""


PRIVATE_NAMES = (
    PrivateName(
        "lightning",
        "lightning.pytorch.cli.LightningCLI._parser",
        "cli",
        "sets and reads the defaults of one verb's parser",
        ("self", "subcommand"),
    ),
    PrivateName(
        "lightning",
        "lightning.pytorch.cli.LightningCLI._get",
        "cli",
        "reads a setting of whichever verb runs",
        ("self", "config", "key", "default"),
    ),
    PrivateName(
        "lightning",
        "lightning.pytorch.cli.LightningCLI._parse_ckpt_path",
        "cli",
        "is overridden: a checkpoint's settings give way to flags",
        ("self",),
    ),
    PrivateName(
        "lightning",
        "lightning.pytorch.cli.LightningCLI._instantiate_trainer",
        "cli",
        "is overridden: our loggers go into the run folder",
        ("self", "config", "callbacks"),
    ),
    PrivateName(
        "lightning",
        "lightning.pytorch.Trainer._accelerator_connector",
        "private_api",
        "knows the cluster, which one device's strategy does not, and holds the strategy",
    ),
    PrivateName(
        "lightning",
        "lightning.pytorch.loops.training_epoch_loop._TrainingEpochLoop._broadcast_sigterm_tensor",
        "private_api",
        "is replaced: it lets every host wait for its device in every step",
        ("self",),
    ),
    PrivateName(
        "lightning",
        "lightning.pytorch.loops.training_epoch_loop._TrainingEpochLoop._batches_that_stepped",
        "runs",
        "is the step of the logs in a checkpoint, written one less where a batch is at hand",
    ),
    PrivateName(
        "lightning",
        "lightning.pytorch.core.LightningModule._trainer",
        "training",
        "tells whether there is a trainer; the public attribute raises without one",
    ),
    PrivateName(
        "lightning",
        "lightning.fabric.loggers.csv_logs.CSVLogger._experiment",
        "runs",
        "holds our writer in place of Lightning's",
    ),
    PrivateName(
        "lightning",
        "lightning.fabric.loggers.csv_logs._ExperimentWriter._check_log_dir_exists",
        "runs",
        "is overridden: it deletes the metrics.csv of a resumed run",
        ("self",),
    ),
    PrivateName(
        "lightning",
        "lightning.fabric.loggers.csv_logs._ExperimentWriter._rewrite_with_new_header",
        "runs",
        "is overridden: it empties metrics.csv before it writes it anew",
        ("self", "fieldnames"),
    ),
    PrivateName(
        "lightning",
        "lightning.fabric.loggers.logger._DummyExperiment",
        "runs",
        "takes what is logged before a run may write its TensorBoard file",
    ),
    PrivateName(
        "python",
        "argparse.HelpFormatter._get_help_string",
        "cli",
        "is overridden: help without reST markup",
        ("self", "action"),
    ),
    PrivateName(
        "torch",
        "torch._utils._flatten_dense_tensors",
        "training",
        "makes one tensor of many, so that one exchange serves all gradients",
        ("tensors",),
    ),
    PrivateName(
        "torch",
        "torch._utils._unflatten_dense_tensors",
        "training",
        "undoes it",
        ("flat", "tensors"),
    ),
    *(
        PrivateName(
            "torch",
            f"torch.nn.Module.{name}",
            "training",
            "tells whether a hook waits for calls that a CUDA graph would leave out",
        )
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    ),
    PrivateName(
        "torch",
        "torch.optim.AdamW._step_supports_amp_scaling",
        "training",
        "is set to False: Lightning refuses to clip gradients of an optimiser that could unscale them itself",
    ),
    PrivateName(
        "torch",
        "torch.utils.data._utils.signal_handling._set_SIGCHLD_handler",
        "data",
        "sets the handler that raises a worker's death, which ours calls",
        (),
    ),
    PrivateName(
        "torch",
        "torch.utils.data.dataloader._MultiProcessingDataLoaderIter._try_get_data",
        "data",
        "waits for a batch, where alone that death is raised",
        ("self", "timeout"),
    ),
    PrivateName(
        "torch",
        "torch.utils.data.dataloader._MultiProcessingDataLoaderIter._workers",
        "cli",
        "knows the exit codes of workers, which torch does not always tell",
    ),
    PrivateName("torch", "torch._foreach_norm", "callbacks", "computes the norms of all gradients in few kernels"),
    PrivateName("torch", "torch._foreach_lerp", "training", "updates all momenta in few kernels"),
    PrivateName("torch", "torch._foreach_lerp_", "training", "likewise, in place; updates averaged weights"),
    PrivateName("torch", "torch._foreach_mul_", "training", "scales all tensors in few kernels"),
    PrivateName("torch", "torch._foreach_add_", "training", "adds to all tensors in few kernels"),
    PrivateName("torch", "torch._foreach_copy_", "training", "copies all tensors in few kernels"),
    PrivateName(
        "torch",
        "torch.ops.aten._scaled_dot_product_cudnn_attention",
        "models",
        "returns the softmax's sums, which a backward pass of our own needs",
    ),
    PrivateName("torch", "torch.ops.aten._scaled_dot_product_flash_attention", "models", "likewise"),
    PrivateName("torch", "torch._scaled_mm", "models", "multiplies fp8 matrices; torch 2.9 has no public name for it"),
    PrivateName(
        "filelock",
        "filelock.FileLock._context",
        "private_api",
        "holds the lock's descriptor, public only for those who forgo soft locks",
    ),
    PrivateName(
        "python",
        "multiprocessing.queues.Queue._on_queue_feeder_error",
        "private_api",
        "is replaced in a loader's worker: it prints a traceback, and the batch is waited for without end",
        ("e", "obj"),
    ),
    PrivateName(
        "jsonargparse",
        "jsonargparse._loaders_dumpers",
        "private_api",
        "has the loader that reads each value typed, which refuses names of files that are no UTF-8",
    ),
    PrivateName(
        "lightning",
        "lightning.fabric.strategies.launchers.subprocess_script._ChildProcessObserver._terminate_all",
        "private_api",
        "kills the first process of a run once another has ended, before it has said its own error",
        ("self",),
    ),
    PrivateName("python", "argparse.ArgumentParser._actions", "cli", "lists a parser's flags"),
    PrivateName("python", "ctypes._SimpleCData", "models", "is the type of a number handed to cuBLASLt"),
)


def cluster_environment(trainer: "Trainer") -> "ClusterEnvironment | None":
    """Return what launched a trainer's processes, also where there is one device."""
    return trainer._accelerator_connector.cluster_environment


def use_one_device(trainer: "Trainer") -> None:
    """Let a trainer of several devices, which has not run yet, use the first of them in this process."""
    from lightning.pytorch.strategies import SingleDeviceStrategy

    strategy = trainer.strategy
    trainer._accelerator_connector.strategy = SingleDeviceStrategy(
        trainer.strategy.root_device, accelerator=strategy.accelerator, precision_plugin=strategy.precision_plugin
    )


def skip_sigterm_exchange(trainer: "Trainer") -> None:
    """Leave out Lightning's exchange about SIGTERM, for which every host waits for its device in every step."""
    trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor = lambda: None  # type: ignore[method-assign]


def spare_first_process() -> None:
    """Let Lightning's launcher, which runs in the first process of a run, not kill it when another one has ended."""
    from lightning.fabric.strategies.launchers.subprocess_script import _ChildProcessObserver

    for thread in threading.enumerate():
        if isinstance(thread, _ChildProcessObserver):
            thread._terminate_all = lambda: None  # type: ignore[method-assign]


def lock_descriptor(lock: "FileLock") -> int | None:
    """Return the file descriptor of a lock that is held, for a process that is to hold it too."""
    return lock._context.lock_file_fd


def on_unsent_batch(call: Callable[[BaseException, Any], None]) -> None:
    """Call a function with the exception and the object where a queue of this process cannot send what it was given."""
    Queue._on_queue_feeder_error = staticmethod(call)  # type: ignore[attr-defined]


UNFIT_FOR_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that names of files may hold and YAML may not: control characters, and bytes that are no UTF-8."""
ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u....|\\u([dD][cC][89a-fA-F][0-9a-fA-F])|\\.")
"""What a backslash begins; in the group, a byte that is no UTF-8, as YAML is written but not read."""
PRIVATE_USE = 0x100000
"""First of the characters of plane 16 that stand for them while YAML is read."""


def let_any_name_be_typed() -> None:
    """Let jsonargparse read values that hold any name of a file, alone or in a list."""
    from jsonargparse._loaders_dumpers import get_yaml_default_loader  # not for those who only lock or load

    loader: Any = get_yaml_default_loader()
    if vars(loader).get("reads_any_name"):
        return
    begin, read = loader.__init__, loader.construct_scalar

    def begin_fit(self: Any, stream: str) -> None:
        stream = ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[0], stream)
        fit = UNFIT_FOR_YAML.sub(lambda found: chr(PRIVATE_USE + ord(found[0])), stream)
        self.stands_for = {PRIVATE_USE + ord(unfit): unfit for unfit in UNFIT_FOR_YAML.findall(stream)}
        begin(self, fit)

    def read_as_given(self: Any, node: Any) -> Any:
        value = read(self, node)
        return value.translate(self.stands_for) if isinstance(value, str) else value

    loader.__init__, loader.construct_scalar, loader.reads_any_name = begin_fit, read_as_given, True
