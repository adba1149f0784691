"""What became of every tensor of a weights file."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.terminal import typed


@dataclass
class Report:
    """What a net took from a weights file; printed, it is a short table.

    Args:
        source: where the weights came from.
        layout: whose layout they have.
        loaded: our tensors that now hold the file's values.
        dropped: the file's tensors that the net does not use, with the reason.
        missing: our tensors that keep their own initialisation, with the reason.
        resampled: our tensors whose values were fitted to another grid, patch or channel count, and how.
        notes: what the file does not say and was taken for granted.
        mean, std: normalisation that the weights expect; None: the file does not say.
        assumes_statistics: whether mean and std are not the file's own, but those of all nets of its kind.
        evaluation: how images are brought to size: as in the validation of the run, else the whole image is resized.
        window: values of the images that became 0 and 1; None: those of 8 bits, or the file does not say.
        class_names: in the head's order; empty: the file does not say.
        training: what a checkpoint of ours says about its run: recipe, data, step, metrics.
        of_data: what a checkpoint of ours keeps of its data, under the keys that it has there: split and seen labels.
    """

    source: str
    layout: str
    loaded: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    resampled: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    assumes_statistics: bool = False
    evaluation: Augment = Augment()
    window: tuple[float, float] | None = None
    class_names: list[str] = field(default_factory=list)
    training: dict[str, Any] = field(default_factory=dict)
    of_data: dict[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> str | None:
        """The recipe's, softmax or sigmoid, which makes probabilities of the logits; None: the file does not say."""
        loss = self.training.get("recipe", {}).get("loss")
        return loss if loss in ("softmax", "sigmoid") else None

    def state_normalisation(self, mean: tuple[float, ...] | None, std: tuple[float, ...] | None, channels: int) -> None:
        """Takes mean and std from whoever knows them, for weights that do not say them.

        Args:
            mean: per channel, for images in [0, 1]; None: not known, which is noted.
            std: likewise.
            channels: of the net.

        Raises:
            InputError: the weights say something else, or these are no mean and std of a net's images.
        """
        for name, given in (("mean", mean), ("std", std)):
            if given is not None:
                _check_statistics(name, given, channels)
            known = getattr(self, name)
            if given is None:
                if known is None:
                    self.notes.append(
                        f"the file does not say the images' {name}: 0.5 per channel; --{name} states another"
                    )
            elif known is None or self.assumes_statistics:
                setattr(self, name, tuple(given))
            elif any(abs(a - b) > 1e-3 for a, b in zip(given, known, strict=True)):
                raise InputError(f"The weights expect {name}={typed(known)}, not {typed(given)}: leave --{name} out.")

    def normalisation(self, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Returns mean and std of the images in [0, 1] that the net expects: the weights' own, else the paper's 0.5."""
        paper = (0.5,) * channels
        return self.mean or paper, self.std or paper

    def adapt_normalisation(self, channels: int) -> None:
        """Makes mean and std, where they are known, those of images of another number of channels.

        Args:
            channels: 1 takes the mean of the weights' channels; more repeat them in turn, as the kernel is repeated.
        """
        changed = []
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values is None or len(values) == channels:
                continue
            whole = (sum(values) / len(values),) if channels == 1 else (values * -(-channels // len(values)))[:channels]
            setattr(self, name, whole)
            changed.append(f"{name} ({', '.join(f'{value:.4g}' for value in whole)})")
        if changed:
            self.notes.append(f"of {channels} channel{'s' * (channels != 1)}: {' and '.join(changed)}")

    def __str__(self) -> str:
        rows = [("loaded", f"{len(self.loaded)} tensors", "")]
        anew = {name: why for name, why in self.missing.items() if self.dropped.get(name) == why}
        states = {
            "resampled": self.resampled,
            "reset": anew,
            "missing": {name: why for name, why in self.missing.items() if name not in anew},
            "dropped": {name: why for name, why in self.dropped.items() if name not in anew},
        }
        for state, entries in states.items():
            for reason in dict.fromkeys(entries.values()):
                rows.append((state, _shorten(name for name, why in entries.items() if why == reason), reason))
        rows += [("note", note, "") for note in self.notes]
        widths = [max(len(row[0]) for row in rows), max((len(what) for _, what, why in rows if why), default=0)]
        lines = [f"  {state:{widths[0]}}  {what:{widths[1]}}  {why}".rstrip() for state, what, why in rows]
        return "\n".join([f"weights: {self.source} ({self.layout})", *lines])


def _check_statistics(name: str, given: tuple[float, ...], channels: int) -> None:
    """Refuses a mean or std that has not a number per channel, or by which no image could be normalised."""
    if len(given) != channels:
        raise InputError(f"--{name} has {len(given)} values for a net of {channels} channels: give one per channel.")
    if not all(math.isfinite(value) and (name == "mean" or value > 0) for value in given):
        kind = "finite numbers" if name == "mean" else "finite numbers above 0"
        raise InputError(f"--{name} is {typed(given)}: give {kind}.")


def _shorten(names: Iterable[str], most: int = 3) -> str:
    """Joins names, those of numbered blocks once for all blocks, and counts what would not fit a line."""
    kinds = list(dict.fromkeys(re.sub(r"(?<=[._/])\d+(?=[./])", "*", name) for name in names))
    more = f" and {len(kinds) - most} more" if len(kinds) > most else ""
    return ", ".join(kinds[:most]) + more
