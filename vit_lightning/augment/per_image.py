"""How images are varied in training and brought to size in evaluation, as the paper's recipes do.

Everything here maps uint8 `(c, y, x)` to uint8 `(c, y, x)`, but for operations on colours float in [0, 1] to the same,
and draws from torch's generator alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

from vit_lightning.augment.mixing import Mix, mixer
from vit_lightning.augment.randaugment import GREY, RandAugment, check_channels, grey
from vit_lightning.errors import InputError

Size = tuple[int, int]
Transform = Callable[[Tensor], Tensor]
Preset = Literal["none", "light1", "light2", "medium1", "medium2", "strong1", "strong2"]

PRESETS: dict[Preset, tuple[tuple[int, float], float]] = {
    "none": ((0, 0), 0.0),
    "light1": ((2, 0), 0.0),
    "light2": ((2, 10), 0.2),
    "medium1": ((2, 15), 0.2),
    "medium2": ((2, 15), 0.5),
    "strong1": ((2, 20), 0.5),
    "strong2": ((2, 20), 0.8),
}
"""RandAugment's layers and magnitude and MixUp's alpha. Source: "How to train your ViT?", section 3."""


@dataclass(frozen=True)
class Augment:
    """How training images are varied and evaluation images brought to size."""

    crop: Literal["inception", "resmall", "resize", "pad", "none"] = "inception"
    """Training crop. inception: a window of any place and of crop_area's size; resmall: a random place after the short
    side is resized to zoom * image_size; resize: the same after both sides are; pad: a random shift by up to an eighth
    of the side, for images of CIFAR's kind; none: the whole image, resized."""
    crop_area: tuple[float, float] = (0.05, 1.0)
    """Least and largest share of an image's area that an inception crop takes. Small sets want a larger least share."""
    flip: bool = True
    """Mirror a training image with probability 1/2. Turn it off where left and right mean something, as in digits."""
    rotate: float = 0.0
    """Turn training images by up to this many degrees to either side; what comes in is black."""
    shift: float = 0.0
    """Shift training images by up to this share of their side in both directions; what comes in is black."""
    scale: float = 0.0
    """Enlarge or shrink training images by up to this share; what comes in is black."""
    zoom: float = 448 / 384
    """Size before a resmall, resize or center crop, in image sizes: 448 / 384 in fine-tuning, 256 / 224 before."""
    evaluation: Literal["resize", "center"] = "resize"
    """Evaluation images. resize: the whole image, its aspect not kept; center: the middle of the image after the short
    side is resized to zoom * image_size."""
    preset: Preset = "none"
    """AugReg's strength of augmentation, which sets rand_augment and mixup_alpha; either given here wins over it."""
    rand_augment: tuple[int, float] | None = None
    """RandAugment after the flip, as [layers, magnitude] (unset: the preset's). That many of 16 operations change
    every image. 10 is full strength, and 0 still changes images; [0, 0] turns it off."""
    trivial_augment: bool = False
    """TrivialAugment after the flip: every image is changed by one operation at any strength (torchvision's wide set).
    It takes RandAugment's place."""
    erasing: float = 0.0
    """Probability that a random box, 2 to 33 % of the area, is painted grey after everything else."""
    mixup_alpha: float | None = None
    """MixUp's Beta parameter (0: off; unset: the preset's). With CutMix on too, each batch gets one of both."""
    cutmix_alpha: float = 0.0
    """CutMix's Beta parameter (0: off)."""
    unmixed: float = 0.0
    """Share of the run, at its end, in which batches are no longer mixed."""

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InputError(f"--data.augment.{name} is {value}, expected {least} to {most}")
        least_area, most_area = self.crop_area
        if not 0 < least_area <= most_area <= 1:
            raise InputError(
                f"--data.augment.crop_area is [{least_area}, {most_area}], expected two shares above 0 and up to 1, "
                "the least first, such as [0.35,1]"
            )
        if self.crop != "inception" and self.crop_area != Augment.crop_area:
            raise InputError(
                f"--data.augment.crop_area does nothing with --data.augment.crop {self.crop}; drop it, or give crop "
                "inception"
            )
        layers, magnitude = self.randomness
        if not 0 <= layers <= 16 or not 0 <= magnitude <= 30:
            raise InputError(
                f"--data.augment.rand_augment is [{layers}, {magnitude}], expected 0 to 16 layers and a magnitude of "
                "0 to 30"
            )
        if self.unmixed and not (self.mixup or self.cutmix_alpha):
            raise InputError(
                f"--data.augment.unmixed {self.unmixed} does nothing where no batch is mixed; leave it at 0, or give "
                "--data.augment.mixup_alpha or cutmix_alpha"
            )
        if layers and self.trivial_augment:
            raise InputError(
                f"--data.augment.trivial_augment cannot go with RandAugment [{layers}, {magnitude}]; "
                "give --data.augment.rand_augment '[0, 0]'"
            )

    @property
    def randomness(self) -> tuple[int, float]:
        """RandAugment's layers and magnitude."""
        return PRESETS[self.preset][0] if self.rand_augment is None else self.rand_augment

    @property
    def mixup(self) -> float:
        """MixUp's Beta parameter."""
        return PRESETS[self.preset][1] if self.mixup_alpha is None else self.mixup_alpha


_LIMITS = {
    "erasing": (0, 1),
    "unmixed": (0, 1),
    "rotate": (0, 180),
    "shift": (0, 1),
    "scale": (0, 0.9),
    "zoom": (1, 4),
    "mixup_alpha": (0, math.inf),
    "cutmix_alpha": (0, math.inf),
}


def check_colours(augment: Augment, channels: int | None, is_deep: bool) -> None:
    """Refuse operations on 8-bit colours for images that have none.

    Args:
        augment: the recipe.
        channels: channels of the images, if they are known.
        is_deep: whether the images are floats, with more than 8 bits.

    Raises:
        InputError: naming the flags to turn off.
    """
    if not (augment.randomness[0] or augment.trivial_augment) or (channels in (None, 1, 3) and not is_deep):
        return
    names = [name for name in _UNCHANGED if getattr(augment, name) not in _OFF]
    instead = " and ".join(f"--data.augment.{name} {_UNCHANGED[name]}" for name in names)
    flags = " and ".join(f"--data.augment.{name}" for name in names)
    what = "images of --data.window have more" if is_deep else f"--data.channels {channels} has other bands"
    mixing = f"; --data.augment.mixup_alpha {augment.mixup:g} keeps the preset's MixUp" * (augment.mixup > 0)
    raise InputError(
        f"{flags} changes 8-bit colours or grey, and {what}: give {instead}, and vary the images by crop, flip, "
        f"rotate, shift, scale, erasing, mixup_alpha and cutmix_alpha{mixing}"
    )


_UNCHANGED = {"preset": "none", "rand_augment": "null", "trivial_augment": "false"}
"""What leaves colours as they are, by flag."""
_OFF = (None, False, "none", (0, 0), [0, 0])


def train_transform(augment: Augment, size: Size, is_deep: bool = False) -> Transform:
    """Return the training transform to `size` (y, x): crop, flip, affine change, random operations, erasing.

    Args:
        augment: the recipe.
        size: where to end.
        is_deep: whether the images are floats in [0, 1] in place of uint8.
    """
    steps: list[Transform] = [RandomCut(augment, size)]
    if augment.rotate or augment.shift or augment.scale:
        steps.append(
            v2.RandomAffine(
                augment.rotate,
                translate=(augment.shift, augment.shift),
                scale=(1 - augment.scale, 1 + augment.scale),
                interpolation=v2.InterpolationMode.BILINEAR,
            )
        )
    layers, magnitude = augment.randomness
    if layers:
        steps.append(RandAugment(layers, magnitude))
    if augment.trivial_augment:
        steps += [check_channels, v2.TrivialAugmentWide(fill=GREY)]
    if augment.erasing:
        steps.append(v2.RandomErasing(augment.erasing, value=grey(torch.float32 if is_deep else torch.uint8)))
    return v2.Compose(steps)


def eval_transform(augment: Augment, size: Size) -> Transform:
    """Return the evaluation transform to `size` (y, x): nothing random, antialiased."""
    if augment.evaluation == "center":
        return v2.Compose([Cover(size, augment.zoom), v2.CenterCrop(size)])
    return v2.Resize(size, antialias=True)


def mixing(augment: Augment, num_classes: int) -> Mix | None:
    """Return what mixes a batch (float images `b c y x`, labels `b` or `b classes`), or None if nothing does."""
    return mixer(augment.mixup, augment.cutmix_alpha, num_classes)


class Cut(NamedTuple):
    """What is taken of an image: a window of it, resized, and of that a window again, mirrored or not; in pixels."""

    y: int
    x: int
    height: int
    width: int
    tall: int
    """Height that the first window is resized to."""
    wide: int
    top: int
    """First row of the second window; what lies outside of the first one is black."""
    left: int
    mirrored: bool


@dataclass(frozen=True)
class RandomCut:
    """The training crop and the mirroring. What is drawn depends on the image's sides alone, and not on its pixels."""

    augment: Augment
    size: Size

    def __call__(self, image: Tensor) -> Tensor:
        return self.apply(image, self.draw(*image.shape[-2:]))

    @property
    def antialias(self) -> bool:
        """Whether resizing is antialiased: in the recipes that keep the aspect it is."""
        return self.augment.crop not in ("inception", "resize")

    def draw(self, height: int, width: int) -> Cut:
        """Draw what is taken of an image of that height and width."""
        whole = 0, 0, height, width
        match self.augment.crop:
            case "inception":
                cut = *InceptionCrop(self.size, self.augment.crop_area).window(height, width), *self.size, 0, 0
            case "resmall":
                cover = Cover(self.size, self.augment.zoom)
                window = cover.window(height, width)
                cut = *window, *self._place(cover.sides(*window[2:]))
            case "resize":
                zoom = self.augment.zoom
                cut = *whole, *self._place((round(self.size[0] * zoom), round(self.size[1] * zoom)))
            case "pad":
                cut = *whole, *self._place(self.size, (self.size[0] // 8, self.size[1] // 8))
            case "none":
                cut = *whole, *self.size, 0, 0
        return Cut(*cut, self.augment.flip and bool(torch.rand(1) < 0.5))

    def apply(self, image: Tensor, cut: Cut) -> Tensor:
        """Cut an image `(c, y, x)`."""
        window = image[..., cut.y : cut.y + cut.height, cut.x : cut.x + cut.width]
        resized = F.resize(window, [cut.tall, cut.wide], antialias=self.antialias)
        image = F.crop(resized, cut.top, cut.left, *self.size)
        return F.horizontal_flip(image) if cut.mirrored else image

    def _place(self, sides: Size, padding: Size = (0, 0)) -> tuple[int, int, int, int]:
        """Draw where the last window lies in an image of those sides, and return both."""
        rooms = [side + 2 * more - own for side, more, own in zip(sides, padding, self.size, strict=True)]
        top, left = (int(torch.randint(0, room + 1, ())) if room else 0 for room in rooms)
        return *sides, top - padding[0], left - padding[1]


@dataclass(frozen=True)
class Cover:
    """Resize an image, its aspect kept, until it just covers `zoom` times the size (y, x)."""

    size: Size
    zoom: float

    def __call__(self, image: Tensor) -> Tensor:
        y, x, height, width = self.window(*image.shape[-2:])
        return F.resize(image[..., y : y + height, x : x + width], list(self.sides(height, width)), antialias=True)

    def window(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Return the middle (y, x, height, width) that is kept: a strip of pixels would grow to gigabytes."""
        tall, wide = min(height, 16 * width), min(width, 16 * height)
        return round((height - tall) / 2), round((width - wide) / 2), tall, wide

    def sides(self, height: int, width: int) -> Size:
        """Return the sides that a window is resized to."""
        scale = max(self.zoom * wanted / side for wanted, side in zip(self.size, (height, width), strict=True))
        return round(height * scale), round(width * scale)


@dataclass(frozen=True)
class InceptionCrop:
    """Crop a random window and resize it to `size` (y, x), as TensorFlow's `sample_distorted_bounding_box` does.

    The aspect is uniform (torchvision's is log-uniform), the height a uniform integer between those of the smallest
    and the largest area that fit, the place uniform, and the resizing bilinear without antialiasing. After 100 windows
    that do not fit, the whole image is taken. Source: big_vision's `ops_image.py` and TensorFlow's kernel.
    """

    size: Size
    area: tuple[float, float] = (0.05, 1.0)
    aspect: tuple[float, float] = (0.75, 1.33)
    attempts: int = 100

    def __call__(self, image: Tensor) -> Tensor:
        y, x, height, width = self.window(*image.shape[-2:])
        return F.resize(image[..., y : y + height, x : x + width], list(self.size), antialias=False)

    def window(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Draw a window (y, x, height, width) of an image of that height and width."""
        for _ in range(self.attempts):
            for_aspect, for_height, for_y, for_x = torch.rand(4, dtype=torch.float64).tolist()
            aspect = self.aspect[0] + for_aspect * (self.aspect[1] - self.aspect[0])
            if sides := self._sides(height, width, aspect, for_height):
                # The kernel never draws the last place unless it is the only one.
                return int(for_y * (height - sides[0])), int(for_x * (width - sides[1])), *sides
        return 0, 0, height, width

    def _sides(self, height: int, width: int, aspect: float, draw: float) -> tuple[int, int] | None:
        smallest, largest = (share * height * width for share in self.area)
        low, high = (round(math.sqrt(area / aspect)) for area in (smallest, largest))
        if round(high * aspect) > width:
            high = math.ceil((width + 0.5) / aspect) - 1
        high = min(high, height)
        low = min(low, high)
        tall = low + int(draw * (high - low + 1))
        # Rounding may leave the area limits by a pixel: try one row more, then one row less.
        if tall * round(tall * aspect) < smallest:
            tall += 1
        if tall * round(tall * aspect) > largest:
            tall -= 1
        wide = round(tall * aspect)
        fits = 0 < tall <= height and 0 < wide <= width and smallest <= tall * wide <= largest
        return (tall, wide) if fits else None
