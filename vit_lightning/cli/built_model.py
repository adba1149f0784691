"""What a model that is built takes from its checkpoint, its weights and the data that are scored."""

from collections.abc import Sequence
from typing import Any

from lightning.pytorch import LightningModule

from vit_lightning.classifier import Classifier
from vit_lightning.cli.config_files import DATA_FACTS
from vit_lightning.cli.named_run import OF_IMAGES
from vit_lightning.data import ImageDataModule
from vit_lightning.errors import InputError, did_you_mean
from vit_lightning.models.config import as_pair
from vit_lightning.runs import folders
from vit_lightning.terminal import near
from vit_lightning.training.members import Members
from vit_lightning.training.recipe import RecipeModel
from vit_lightning.training.resume import check_image_size
from vit_lightning.weights import open_weights
from vit_lightning.weights.class_names import numbers_of


def complete(
    verb: str,
    model: LightningModule,
    data: Any,
    trained: dict[str, Any],
    members: Sequence[str],
    checkpoint: str | None = None,
) -> None:
    """Let a model take what the data do not know, as with unlabelled images, and its head and companions.

    Args:
        verb: The verb that the model is built for.
        model: The model.
        data: Its datamodule.
        trained: What its checkpoint says; empty without one.
        members: Further nets that answer beside it.
        checkpoint: Where its checkpoint lies.

    Raises:
        InputError: the data suit neither its net nor a part of it, or it cannot be one of several.
    """
    for name in DATA_FACTS:
        if trained and model.hparams.get(name) is None:
            model.hparams[name] = trained["hyper_parameters"].get(name)
    if isinstance(model, RecipeModel):
        if trained:
            check_image_size(model.config, model.hparams, trained["hyper_parameters"])
        elif verb in OF_IMAGES:
            take_facts_of_weights(model)
        if verb in ("validate", "test", "predict"):
            take_whole_head(model, data, trained)
    if members:
        _take_members(model, members, checkpoint)


def _take_members(model: LightningModule, members: Sequence[str], checkpoint: str | None) -> None:
    """Let further checkpoints answer beside the first."""
    if not isinstance(model, Classifier):
        raise InputError(f"an ensemble is of Classifiers, not of {type(model).__name__}; give one checkpoint")
    if model.hparams["image_size"] is None:
        take_facts_of_weights(model)
    paths = [folders.checkpoint_behind(word) for word in members]
    foreign = model.weights if not checkpoint else None
    own = open_weights(foreign, model.hparams["weights_raw"], model.chosen).image_size if foreign else None
    first = checkpoint or model.weights or "the first net"
    model.answering.members = Members(paths, as_pair(model.hparams["image_size"]), first, own)


def take_whole_head(model: RecipeModel, data: Any, trained: dict[str, Any]) -> None:
    """Let a net that is scored on data with some of its classes keep its head.

    Raises:
        InputError: the data have fewer classes, and one of them is none of the net's.
    """
    ours = list(data.stated_names if isinstance(data, ImageDataModule) else getattr(data, "class_names", ()))
    if trained:
        theirs, classes = trained["class_names"], trained["hyper_parameters"].get("num_classes")
    elif model.weights and ours:
        opened = open_weights(model.weights, model.hparams["weights_raw"], model.chosen)
        theirs, classes = opened.class_names, opened.num_classes
    else:
        return
    if not (ours and theirs) or classes != len(theirs) or not hasattr(model, "class_names"):
        return
    if trained:
        _check_class_map(data, ours, theirs)
    if len(ours) == classes and (not trained or sorted(ours) != sorted(theirs)):
        return
    if numbers_of(ours, theirs) is None:
        unknown = next((name for name in ours if numbers_of([name], theirs) is None), ours[0])
        raise InputError(
            f"the data has {len(ours)} classes, the net {classes}, and {unknown!r:.60} is none of these, or one of two"
            f"{did_you_mean(unknown, theirs)}; give data of the same classes, or say in --data.class_map which class "
            "of the net each folder shows"
        )
    model.hparams["num_classes"], model.class_names = classes, list(theirs)


def _check_class_map(data: Any, ours: Sequence[str], theirs: Sequence[str]) -> None:
    """Refuse a class map that leaves a folder out, so that its own name stands among classes of the net."""
    path = getattr(data, "class_map", None)
    unknown = [name for name in ours if numbers_of([name], theirs) is None]
    if path is not None and 0 < len(unknown) < len(ours):
        raise InputError(
            f"{unknown[0]!r:.60} is no class of the net ({len(unknown)} such): --data.class_map {near(path)} lacks "
            f"it, or misspells its class; say there which class of the net it is{did_you_mean(unknown[0], theirs)}"
        )


def take_facts_of_weights(model: RecipeModel) -> None:
    """Let weights say what data without classes, such as Images, leave open."""
    lacking = [name for name in ("num_classes", "image_size") if model.hparams[name] is None]
    if lacking and model.weights:
        opened = open_weights(model.weights, model.hparams["weights_raw"], model.chosen)
        model.hparams.update({name: getattr(opened, name) for name in lacking})
