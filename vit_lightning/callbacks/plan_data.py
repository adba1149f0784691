"""What the plan says of the data: images per split, classes, normalisation, and sets that are small for their net."""

from collections.abc import Sized

from lightning.pytorch import LightningModule, Trainer

from vit_lightning.data import ImageDataModule
from vit_lightning.data.image_set import labels_of, record_of
from vit_lightning.data.images import own_channels
from vit_lightning.errors import listing
from vit_lightning.models.variants import described
from vit_lightning.terminal import counted
from vit_lightning.training.recipe import RecipeModel

LARGE, PER_IMAGE = 5_000_000, 1_000
"""Parameters of a net, and per training image, above which weights from elsewhere are advised."""
SPLITS = ("train", "val", "test")
ONE_CLASS = (
    "all training images are of one class, {name}, and a net that knows no other answers nothing else; add images of "
    "the other classes"
)


MIRRORED = "half of the training images; --data.augment.flip false stops it"


def data_facts(trainer: Trainer, model: LightningModule) -> list[str]:
    """Return the lines about the data of a run, as far as they are known."""
    data, lines = trainer.datamodule, []  # type: ignore[attr-defined]  # set by Lightning from outside
    if isinstance(data, ImageDataModule):
        sets = {split: getattr(data, f"{split}_set") for split in SPLITS}
        counts = [f"{split} {len(images):,}" for split, images in sets.items() if images is not None]
        lines.append(f"images   {', '.join(counts)}")
        if names := data.class_names:
            lines.append(f"classes  {len(names):,}: {listing(names, most=8, longest=30)}")
        if _mirrors(data):
            lines.append(f"mirrored {MIRRORED}")
    if isinstance(model, RecipeModel):
        lines += _pixel_lines(model, data)
        given = isinstance(data, ImageDataModule) and not (data.mean is None and data.std is None)
        source = "--data.mean and --data.std" if given else model.normalised_by
        mean, std = (", ".join(f"{value:.4g}" for value in model.hparams[name]) for name in ("mean", "std"))
        lines.append(f"pixels   mean {mean}, std {std}, from {source}")
        said = [_few_images(trainer, model), _one_class(model, data), _recoloured(data)]
        lines += [f"warning  {each}" for each in said if each]
    return lines


def _mirrors(data: ImageDataModule) -> bool:
    """Whether training images are mirrored, as far as the transform is ours."""
    return data.train_set is not None and data.augment.flip and not data.overrides("train_transform")


def _pixel_lines(model: RecipeModel, data: object) -> list[str]:
    """What images are made of, where it is not 8-bit RGB."""
    channels, window = model.pixel_facts
    if window is None and channels in (None, 3):
        return []
    count = model.config.channels
    said = f"pixels   {count} channel{'s' * (count != 1)}"
    if window is None:
        return [f"{said} of 8 bits"]
    source = "the checkpoint"
    if isinstance(data, ImageDataModule) and data.window is not None:
        source = "--data.window"
    elif "window" in model.assumed:
        source = "99.8 % of the values of training images"
    return [f"{said} in float32, window {window[0]:g} to {window[1]:g}, from {source}"]


def _few_images(trainer: Trainer, model: RecipeModel) -> str | None:
    """The sentence for a large net that begins at random on few images."""
    records = trainer.train_dataloader.dataset
    if "weights" not in model.hparams or model.weights or trainer.ckpt_path or not isinstance(records, Sized):
        return None
    parameters = sum(parameter.numel() for parameter in model.net.parameters())
    if parameters < LARGE or parameters < PER_IMAGE * len(records):
        return None
    net = described(model.config.variant, vars(model.config))
    images = counted(len(records), "image", grouped=True)
    return (
        f"{images} {'is' if len(records) == 1 else 'are'} few for {net} from scratch; begin with "
        "--model.weights (a file, https:// or hf://) and --model.weights_head reset, or take a smaller "
        "--model.net.variant"
    )


def _one_class(model: RecipeModel, data: object) -> str | None:
    """The sentence for training images of one class alone, as far as their labels are known without reading them."""
    if not isinstance(data, ImageDataModule) or model.hparams.get("loss") != "softmax" or data.train_set is None:
        return None
    labels = labels_of(data.train_subset)
    first = 0 if labels is None or not len(labels) else labels[0]
    if data.num_classes != 1 and (labels is None or not len(labels) or labels.ndim != 1 or (labels != first).any()):
        return None
    name = data.class_names[int(first)] if 0 <= first < len(data.class_names) else str(first)
    return ONE_CLASS.format(name=name)


def _recoloured(data: object) -> str | None:
    """The sentence for images of a set that are colour where grey is asked for, or grey where colour is."""
    if not isinstance(data, ImageDataModule) or data.train_set is None or data.pixel_form.channels is None:
        return None
    found, form = own_channels(record_of(data.train_set, 0)[0]), data.pixel_form
    if found in (None, form.channels):
        return None
    what = "their luminance is taken" if form.channels == 1 else "their grey is repeated"
    kept = "" if form.asked else f"; give --data.channels {found} to keep them as they are"
    return f"the training images have {counted(found, 'channel')}, and {form.wanted}: {what}{kept}"
