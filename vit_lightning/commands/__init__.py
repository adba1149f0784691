"""The table of verbs. A new verb is a function in the module of its name here, and a row."""

from typing import Literal, NamedTuple


class Verb(NamedTuple):
    """A subcommand: the function of its name in `commands.<name>`, or a method of Lightning's Trainer.

    A run verb takes the flags of a fit: model, data, trainer. A file verb takes paths.
    """

    name: str
    kind: Literal["run", "file"]
    help: str


VERBS = (
    Verb("fit", "run", "train a net: from scratch, from weights, or further from a checkpoint"),
    Verb("validate", "run", "score a checkpoint on the validation set"),
    Verb("test", "run", "score a checkpoint on the test set"),
    Verb("predict", "run", "write a checkpoint's best classes for each image"),
    Verb("probe", "run", "score simple classifiers on the features of a frozen net: few-shot, k-NN, logistic"),
    Verb("inspect", "run", "draw what a net looks at and what it has learned: attention, features, positions, filters"),
    Verb("average", "run", "average the weights of several checkpoints, and score the mean beside each of them"),
    Verb("benchmark", "run", "measure training, inference, fit and data in images per second, beside a peer if named"),
    Verb("plan", "run", "say what a fit will cost: steps, exaFLOPs, memory, hours, energy"),
    Verb("doctor", "run", "look for what is wrong with data, config and machine, and say how to mend it"),
    Verb("prepare", "run", "write any data's images, resized, as shards for --data Shards"),
    Verb("convert", "file", "turn weights of one public layout into another"),
    Verb("sweep", "file", "run all combinations of a plan's settings, and make tables and figures of them"),
    Verb("report", "file", "write one HTML page of what a run did, or of how several runs compare"),
    Verb("export", "file", "turn a checkpoint into ONNX, torch.export, safetensors or a Hugging Face folder"),
)
LIGHTNING_VERBS = ("fit", "validate", "test")
"""Verbs that are methods of Lightning's Trainer; its predict has other flags than ours."""


def named(kind: Literal["run", "file"]) -> tuple[str, ...]:
    """Names of the verbs of a kind, in the table's order."""
    return tuple(verb.name for verb in VERBS if verb.kind == kind)
