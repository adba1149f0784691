"""`VERB WEIGHTS`: weights of any layout, or an exported program, in the place of a run or a checkpoint."""

from pathlib import Path

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.named_run import SCORING
from vit_lightning.errors import InputError
from vit_lightning.files import looked_for_in, meant
from vit_lightning.runs import folders
from vit_lightning.weights import open_weights
from vit_lightning.weights.archive import FOLDER_FILES
from vit_lightning.weights.exported import FILE, ExportedProgram

ENDINGS = (".safetensors", ".npz", ".pth", ".pt", ".bin", ".onnx")
"""Names that no checkpoint of ours has."""
PROGRAM = f"{ExportedProgram.__module__}.{ExportedProgram.__qualname__}"


def take_weights(line: CommandLine) -> bool:
    """Put weights that stand behind a verb where a flag would name them, and say whether there were any.

    Raises:
        InputError: --ckpt_path or --model.weights names others, or a program is to do more than predict.
    """
    place = next((at for at, argument in enumerate(line) if at and not argument.flag), None)
    if line.verb not in SCORING or place is None:
        return False
    word = str(line.arguments[place].value)
    if not _are_weights(word):
        return False
    if other := next((flag for flag in ("--ckpt_path", "--model.weights") if line.value(flag)), None):
        raise InputError(f"{word} and {other} {line.value(other)} both name a net; give one of them")
    del line.arguments[place]
    program = _program(word)
    if program is None:
        line.set("--model.weights", word)
    else:
        _take_program(line, program)
    return True


def probabilities_of(line: CommandLine) -> str | None:
    """Return the loss of which the weights that are scored make probabilities; None: they do not say."""
    source = line.value("--model.weights")
    if line.verb not in SCORING or source is None or line.has("--model"):
        return None
    return open_weights(source).loss


def _are_weights(word: str) -> bool:
    path = Path(word).expanduser()
    if "://" in word or (path.suffix in ENDINGS and not path.is_dir()):
        return True
    return path.is_dir() and not folders.is_run(path) and any((path / name).is_file() for name in (*FOLDER_FILES, FILE))


def _program(word: str) -> Path | None:
    """Return the ONNX program that a word names, itself or by its folder."""
    path = Path(word).expanduser()
    if path.suffix == ".onnx" and not path.is_dir():
        return path
    return path / FILE if (path / FILE).is_file() else None


def _take_program(line: CommandLine, program: Path) -> None:
    """Let a program be the model, and bring images to size as it says."""
    if line.verb != "predict":
        raise InputError(f"{line.verb} {program}: an ONNX program only predicts; give the checkpoint it was made from")
    if not program.is_file():
        raise InputError(
            f"predict {program}: no such file{looked_for_in(program)}; give a program of the verb export"
            f"{meant(program)}"
        )
    evaluation = ExportedProgram(program).evaluation
    for name in ("evaluation", "zoom"):
        value = getattr(evaluation, name)
        if value != getattr(type(evaluation)(), name):
            line.set_first(f"--data.augment.{name}", str(value))
    line.set("--model", PROGRAM)
    line.set("--model.file", str(program))
