"""The door: `python -m vit_lightning VERB ...`."""

import difflib
import errno
import gc
import json
import re
import signal
import sys
from collections import deque
from collections.abc import Callable
from importlib import import_module
from inspect import getdoc, signature
from itertools import takewhile
from traceback import walk_tb
from types import FrameType

from vit_lightning.cli.rank_errors import tells, told
from vit_lightning.errors import InputError

RUN_VERBS = {
    "fit": "train a net: from scratch, from weights, or on from a checkpoint",
    "validate": "score a checkpoint on the validation set",
    "test": "score a checkpoint on the test set",
    "predict": "write a checkpoint's best classes for each image",
    "benchmark": "measure training, inference, fit and data in images per second, beside a peer if one is named",
    "doctor": "look for what is wrong with data, config and machine, and say how to mend it",
    "prepare": "write any data's images, resized, as shards for --data Shards",
}
FILE_VERBS = {
    "convert": "turn weights of one public layout into another",
    "sweep": "run all combinations of a plan's settings, and make tables and figures of them",
    "export": "turn a checkpoint into ONNX, torch.export, safetensors or a Hugging Face folder",
}
COMPLAINTS = (
    (
        re.compile(r"No supported gpu backend found"),
        "--trainer.accelerator gpu: torch finds no GPU; give --trainer.accelerator cpu after a file that asks for one",
    ),
    (
        re.compile(r"current_epoch=\d+, but you have set Trainer\(max_epochs=(\d+)\)"),
        r"--trainer.max_epochs \1: the checkpoint is from a later epoch; give more than its run has had",
    ),
    (
        re.compile(r"`(max_\w+)` must be .* You passed in (-?\w+)"),
        r"--trainer.\1 \2: expected a whole number from 0, or -1 for no limit",
    ),
)
"""What Lightning says of its flags, and how it is said here."""
REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors of the system that the user alone can mend."""


class Ended(SystemExit):
    """What SIGTERM raises in a verb that has no state to save; Lightning would end it with status 0."""


def end(signum: int, frame: FrameType | None) -> None:
    """Take SIGTERM."""
    raise Ended


def main() -> int:
    """Run the verb that the command line names and return the exit status."""
    words = sys.argv[1:]
    if words[:1] in (["-h"], ["--help"]):
        print(overview())
        return 0
    try:
        run(words)
    except KeyboardInterrupt:
        return interrupted()
    except Ended:
        print("error: ended by SIGTERM before it was done", file=sys.stderr)
        return 128 + signal.SIGTERM
    except SystemExit as error:
        if error.code == 1 and isinstance(error.__context__, KeyboardInterrupt):  # as Lightning leaves
            return interrupted()
        raise
    except Exception as error:
        known = (input_error, trainer_error, torchvision_error, system_error, memory_error)
        fault = next((said for explain in known if (said := explain(error))), None)
        if fault is None and told():
            return 1
        if fault is None:
            raise
        sentence = " ".join(str(fault).split())
        if tells(sentence):
            print(f"error: {sentence}", file=sys.stderr)
        return 1
    return 0


def interrupted() -> int:
    """Say that Ctrl-C ended the program; return the status that shells have for it."""
    print("interrupted", file=sys.stderr)
    return 128 + signal.SIGINT


def leave() -> None:
    """Let nothing interrupt a program that is done, and spare it a last look at all imported objects: a second."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    gc.freeze()


def input_error(error: BaseException | None) -> InputError | None:
    """The InputError that an exception is or was raised from: jsonargparse wraps those of constructors in its own."""
    while error is not None and not isinstance(error, InputError):
        error = error.__cause__ or error.__context__
    return error


def trainer_error(error: BaseException) -> str | None:
    """Lightning's own complaint about its flags, in one line; None for any other exception."""
    if type(error).__name__ != "MisconfigurationException":  # by name, since importing Lightning is slow
        return None
    said = " ".join(str(error).split())
    found = next((match.expand(words) for known, words in COMPLAINTS if (match := known.search(said))), None)
    return found or f"{said} (a matter of --trainer)"


def torchvision_error(error: BaseException | None) -> str | None:
    """What its import raises where it is of another build than torch, in one line; None for any other exception."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("torch"):
            return None
        for frame, _ in walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__") == "torchvision" and frame.f_code.co_name == "<module>":
                from importlib import metadata  # slow, and needed here only

                torch, vision = (metadata.version(name) for name in ("torch", "torchvision"))
                return (
                    f"torchvision {vision} does not fit torch {torch} ({error}); install the one that does: "
                    f"pip install --force-reinstall torch=={torch} torchvision, from the index of that torch"
                )
        error = error.__cause__ or error.__context__
    return None


def system_error(error: BaseException) -> str | None:
    """What the system refuses with a file, in one line; None for any other exception."""
    if isinstance(error, OSError) and error.errno in REFUSALS:
        return f"{error.filename or 'a file'}: {error.strerror}; free space there, allow it, or name another place"
    return None


def memory_error(error: BaseException) -> str | None:
    """What is said where the memory does not suffice, in one line; None for any other exception."""
    if not isinstance(error, RuntimeError | MemoryError):
        return None
    from vit_lightning.compute.gpu_memory import is_exhausted

    if not is_exhausted(error):
        return None
    wanted = re.search(r"(?:tried to allocate|sizes=) ?(\[[^]]*\]|[\d.]+ \w+)", str(error), re.IGNORECASE)
    return (
        f"the memory does not suffice{f' for {wanted[1]}' if wanted else ''}; give a smaller net, --data.image_size or "
        "--data.batch_size (--trainer.accumulate_grad_batches makes up for it), or --model.recompute true; "
        "benchmark --batches auto finds the largest batch"
    )


def run(words: list[str]) -> None:
    """Hand over to LightningCLI, or to the function of a file verb."""
    verb = words[0] if words else ""
    if verb in RUN_VERBS:
        before = signal.signal(signal.SIGTERM, end) if verb != "fit" else None
        gc.disable()  # until ViTCLI has built everything, of which nothing is garbage: a fifth of the start
        try:
            from vit_lightning.cli.vit_cli import ViTCLI

            ViTCLI()
        finally:
            gc.unfreeze()
            gc.enable()
            if before is not None:
                signal.signal(signal.SIGTERM, before)
    elif verb in FILE_VERBS:
        from jsonargparse import auto_cli

        from vit_lightning.cli.parser_errors import ShortParser

        function = getattr(import_module(f"vit_lightning.commands.{verb}"), verb)
        prog, about = f"python -m vit_lightning {verb}", getdoc(function).partition("\n\nArgs:")[0]
        auto_cli(function, args=spelled(words[1:], function), prog=prog, description=about, parser_class=ShortParser)
    else:
        verbs = {**RUN_VERBS, **FILE_VERBS}
        close = difflib.get_close_matches(verb, verbs, n=1)
        said = f"unknown verb {verb!r}" if verb else "a verb is missing"
        raise InputError(f"{said}{f'; did you mean {close[0]}?' if close else ''} (one of {', '.join(verbs)})")


def spelled(words: list[str], function: Callable) -> list[str]:
    """Spell words for jsonargparse: the values of a list as a list, a switch that stands alone as true."""
    hints = {f"--{name}": str(parameter.annotation) for name, parameter in signature(function).parameters.items()}
    left, plain, spelt = deque(words), [], []
    while left:
        word = left.popleft()
        flag, sign, value = word.partition("=")
        hint = hints.get(flag, "")
        if not word.startswith("-"):
            plain.append(word)
        elif hint.startswith("list["):
            values = [value] if sign else list(takewhile(lambda word: not word.startswith("--"), left))
            left = left if sign else deque(list(left)[len(values) :])
            spelt += [part for value in values for part in (f"{flag}+", value)]
        elif "bool" in hint and not sign and (not left or left[0] not in ("true", "false")):
            spelt += [flag, "true"]
        else:
            spelt += [word] if sign or not left else [word, left.popleft()]
    listed = next(iter(hints.values())).startswith("list[") and plain
    return [json.dumps(plain), *spelt] if listed else [*plain, *spelt]


def overview() -> str:
    """Every verb with one line; shown by --help."""
    lines = [f"  {verb:<10} {line}" for verb, line in {**RUN_VERBS, **FILE_VERBS}.items()]
    return "\n".join(
        [
            "usage: python -m vit_lightning VERB [-c EXPERIMENT.yaml ...] [--flag value ...]",
            "",
            *lines,
            "",
            "VERB --help lists the flags of a verb; start with: python -m vit_lightning fit -c experiments/digits.yaml",
        ]
    )


if __name__ == "__main__":
    try:
        status = main()
    finally:
        leave()
    sys.exit(status)
