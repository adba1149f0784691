"""Flags of a split that change nothing, since the data have one of their own or a table states it."""

from inspect import signature

from vit_lightning.data import ImageDataModule
from vit_lightning.errors import one_line

SCORING = ("validate", "test", "predict")


def name_idle(data: ImageDataModule, names: tuple[str, ...], why: str) -> None:
    """Say which flags of these names were given and are of no account; verbs that score keep those of the run.

    A share of 0 asks for nothing that is not so.

    Args:
        data: the datamodule.
        names: its flags.
        why: what states the split instead.
    """
    if data.trainer is not None and data.trainer.state.fn in SCORING:
        return
    values = {name: getattr(data, name) for name in names if getattr(data, name) != _default(data, name)}
    given = [f"--data.{name} {value}" for name, value in values.items() if value or name == "split_seed"]
    if given:
        data.notice(f"ignored: {one_line(' and '.join(given))}, since {why}")


def name_idle_fraction(data: ImageDataModule, source: object) -> None:
    """Say that a share to hold out is of no account where there are validation images, if it was given."""
    if data.val_set is not None and data.train_set is not None:
        name_idle(data, ("val_fraction",), f"{source} has validation images of its own")


def _default(data: ImageDataModule, name: str) -> object:
    """Return a flag's default, also of one that a base class takes."""
    found = (signature(each.__init__).parameters for each in type(data).__mro__ if "__init__" in vars(each))
    return next(each[name].default for each in found if name in each)
