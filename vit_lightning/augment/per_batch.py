"""The random steps of a recipe on a whole batch at once, on the device that trains.

The host draws the numbers, so that the device never has to be asked; the device changes the pixels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from einops import pack, rearrange, repeat
from torch import Tensor
from torch.nn.functional import grid_sample
from torchvision.transforms import v2

from vit_lightning.augment import Augment, randaugment
from vit_lightning.augment.per_image import Cover, Size
from vit_lightning.seeds import StatelessRandom, below


class UnaugmentedBatch(NamedTuple):
    """A batch that is not varied yet, with the numbers that decide how it will be."""

    images: Tensor
    labels: Tensor
    numbers: tuple[Any, ...]


class Step(Protocol):
    """One random change."""

    def draw(self, random: StatelessRandom) -> Any:
        """Return the numbers for a batch, as CPU tensors or arrays in any nest of tuples."""

    def __call__(self, images: Tensor, numbers: Any) -> Tensor:
        """Change uint8 `(b, c, y, x)` by numbers that lie on the same device."""


class BatchAugment:
    """What `augment.train_transform` does, from the same distributions, with other numbers.

    Args:
        augment: the recipe; `unsupported` says whether all of it can be done here.
        size: image size to end at (y, x).
    """

    def __init__(self, augment: Augment, size: Size) -> None:
        self.resize = _resize(augment, size)
        padding = (size[0] // 8, size[1] // 8) if augment.crop == "pad" else (0, 0)
        window = Window(size, padding, augment.flip)
        self.steps: list[Step] = [window, *later_steps(augment, size)]

    def draw(self, random: StatelessRandom) -> tuple[Any, ...]:
        """Return the numbers of every step."""
        return tuple(step.draw(random) for step in self.steps)

    def __call__(self, images: Tensor, numbers: Sequence[Any]) -> Tensor:
        """Return images `(b, c, y, x)` of any one size varied, at the size that the recipe ends at."""
        images = self.resize(images)
        for step, its_numbers in zip(self.steps, numbers, strict=True):
            images = step(images, its_numbers)
        return images


def later_steps(augment: Augment, size: Size) -> list[Step]:
    """Return the steps of a recipe that follow the crop and the mirroring."""
    steps: list[Step] = []
    if augment.rotate or augment.shift or augment.scale:
        steps.append(Affine(augment.rotate, augment.shift, augment.scale, size))
    layers, magnitude = augment.randomness
    if layers:
        steps.append(Operations(layers, magnitude))
    if augment.erasing:
        steps.append(Erasing(augment.erasing, size))
    return steps


def unsupported(augment: Augment) -> str | None:
    """Say which part of a recipe needs each record alone, or return None."""
    if augment.crop == "inception":
        return "augment.crop inception"
    return "augment.trivial_augment" if augment.trivial_augment else None


def _resize(augment: Augment, size: Size) -> Callable[[Tensor], Tensor]:
    match augment.crop:
        case "resmall":
            return Cover(size, augment.zoom)
        case "resize":
            return v2.Resize([round(side * augment.zoom) for side in size], antialias=False)
        case _:
            return v2.Resize(size, antialias=True)


@dataclass(frozen=True)
class Window:
    """Crop a window at a random place, mirrored or not.

    Args:
        size: height and width of the window.
        padding: rows and columns of black around the image that the window may reach into.
        flip: mirror every second one.
    """

    size: Size
    padding: Size
    flip: bool

    def draw(self, random: StatelessRandom) -> Tensor:
        """Return int64 `(3, b)`: the place's row and column, and the mirroring, from 0 to below 2**32 each."""
        return torch.from_numpy(np.stack([random("crop y"), random("crop x"), random("flip")]))

    def __call__(self, images: Tensor, numbers: Tensor) -> Tensor:
        y, x = (
            below(numbers[axis], images.shape[2 + axis] + 2 * self.padding[axis] - self.size[axis] + 1)
            - self.padding[axis]
            for axis in (0, 1)
        )
        return cut(images, y, x, below(numbers[2], 1 + self.flip).bool(), self.size)


def cut(images: Tensor, y: Tensor, x: Tensor, mirrored: Tensor, size: Size) -> Tensor:
    """Cut a window out of every image; what lies outside is black.

    Args:
        images: uint8 `(b, c, y, x)`.
        y: first row of each window `(b,)`.
        x: first column of each window `(b,)`.
        mirrored: whether left and right are swapped `(b,)`.
        size: height and width of the windows.
    """
    height, width = images.shape[-2:]
    down, right = (torch.arange(side, device=images.device) for side in size)
    rows = rearrange(y, "b -> b 1 1") + rearrange(down, "y -> y 1")
    right = torch.where(rearrange(mirrored, "b -> b 1"), size[1] - 1 - right, right)
    columns = rearrange(rearrange(x, "b -> b 1") + right, "b x -> b 1 x")
    places = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    places = repeat(places, "b y x -> b c (y x)", c=images.shape[1])
    taken = rearrange(images, "b c y x -> b c (y x)").gather(2, places)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return rearrange(taken, "b c (y x) -> b c y x", x=size[1]) * rearrange(inside, "b y x -> b 1 y x")


@dataclass(frozen=True)
class Affine:
    """Turn, shift and scale, as torchvision's RandomAffine does; what comes in is black.

    Args:
        rotate: largest angle in degrees.
        shift: largest shift in sides.
        scale: largest change of the scale.
        size: height and width of the images.
    """

    rotate: float
    shift: float
    scale: float
    size: Size

    def draw(self, random: StatelessRandom) -> Tensor:
        """Return for each image the matrix `(b, 2, 3)` from a place seen from the middle to where it is taken from."""
        height, width = self.size
        angle = np.radians(random.uniform("rotate", -self.rotate, self.rotate))
        x = np.round(random.uniform("shift x", -1, 1) * self.shift * width)
        y = np.round(random.uniform("shift y", -1, 1) * self.shift * height)
        return inverse(angle, x, y, random.uniform("scale", 1 - self.scale, 1 + self.scale))

    def __call__(self, images: Tensor, numbers: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        y, x = (torch.arange(side, device=images.device) - (side - 1) / 2 for side in (height, width))
        a = rearrange(numbers, "b row column -> row column b 1 1")
        from_x, from_y = (row[0] * x + row[1] * rearrange(y, "y -> y 1") + row[2] for row in a)
        grid = torch.stack([from_x / (width / 2), from_y / (height / 2)], dim=-1)
        shown, _ = pack([images.float(), torch.ones_like(images[:, :1], dtype=torch.float32)], "b * y x")
        shown = grid_sample(shown, grid, align_corners=False)
        shown = shown[:, :-1] * shown[:, -1:]  # torchvision fades the border in the same way
        return shown.round().to(torch.uint8) if images.dtype == torch.uint8 else shown


def inverse(angle: np.ndarray, x: np.ndarray, y: np.ndarray, scale: np.ndarray) -> Tensor:
    """Return float matrices `(b, 2, 3)` that undo a turn by `angle` (radians), a scaling and a shift by `(x, y)`."""
    cos, sin = np.cos(angle) / scale, np.sin(angle) / scale
    rows = [[cos, sin, -cos * x - sin * y], [-sin, cos, sin * x - cos * y]]
    return rearrange(torch.from_numpy(np.array(rows, dtype=np.float32)), "row column b -> b row column")


GROUPS = [(name, sign) for name in randaugment.OPS for sign in ((1, -1) if name in randaugment.DIRECTED else (1,))]
"""Operations in the order in which a batch is sorted by them."""


@dataclass(frozen=True)
class Operations:
    """RandAugment: sort the batch by operation, apply each to its part, and bring it back to its order.

    Args:
        layers: operations one after the other.
        magnitude: strength of each; 10 is full.
    """

    layers: int
    magnitude: float

    def draw(self, random: StatelessRandom) -> tuple[Tensor, Tensor, np.ndarray]:
        """Return who goes where before each layer and at the end, Cutout's places, and the size of each group.

        They are int64 `(layers + 1, b)`, float `(layers, b, 2)` and an array `(layers, groups)`.
        """
        moves: list[np.ndarray] = []
        backs: list[np.ndarray] = []
        places, counts = [], []
        for layer in range(self.layers):
            group = _FIRST[below(random(f"operation {layer}"), len(_FIRST))]
            directed = np.array([name in randaugment.DIRECTED for name, _ in GROUPS])[group]
            group = group + directed * below(random(f"direction {layer}"), 2)
            order = np.argsort(group, kind="stable")
            moves.append(backs[-1][order] if backs else order)
            backs.append(np.argsort(order))
            places.append(np.stack([random.uniform(f"place {axis} {layer}")[order] for axis in "yx"], axis=1))
            counts.append(np.bincount(group, minlength=len(GROUPS)))
        return (
            torch.from_numpy(np.stack([*moves, backs[-1]])),
            torch.from_numpy(np.stack(places).astype(np.float32)),
            np.stack(counts),
        )

    def __call__(self, images: Tensor, numbers: tuple[Tensor, Tensor, np.ndarray]) -> Tensor:
        moves, places, counts = numbers
        for layer in range(self.layers):
            sizes = counts[layer].tolist()
            parts = zip(GROUPS, images[moves[layer]].split(sizes), places[layer].split(sizes), strict=True)
            images = torch.cat(
                [
                    randaugment.apply(name, part, self.magnitude, sign, place)
                    for (name, sign), part, place in parts
                    if len(part)
                ]
            )
        return images[moves[-1]]


_FIRST = np.array([GROUPS.index((name, 1)) for name in randaugment.OPS])
"""First group of each operation."""


@dataclass(frozen=True)
class Erasing:
    """Paint a box grey, as torchvision's RandomErasing does.

    Args:
        probability: share of the images that get a box.
        size: height and width of the images.
        area: smallest and largest area of a box, as a share of the image.
        aspect: smallest and largest height over width.
        attempts: boxes that are drawn until one fits; after that there is none.
    """

    probability: float
    size: Size
    area: tuple[float, float] = (0.02, 0.33)
    aspect: tuple[float, float] = (0.3, 3.3)
    attempts: int = 10

    def draw(self, random: StatelessRandom) -> Tensor:
        """Return int64 `(4, b)`: first row and column, height and width of each box; no height, no box."""
        wanted = random.uniform("erasing") < self.probability
        sides = np.zeros((2, len(wanted)), dtype=np.int64)
        for attempt in range(self.attempts):
            area = random.uniform(f"erasing area {attempt}", *self.area) * self.size[0] * self.size[1]
            aspect = np.exp(random.uniform(f"erasing aspect {attempt}", *np.log(self.aspect)))
            box = np.round(np.sqrt([area * aspect, area / aspect])).astype(np.int64)
            fits = (box < rearrange(np.array(self.size), "side -> side 1")).all(axis=0)
            sides = np.where(wanted & fits & (sides[0] == 0), box, sides)
            if (sides[0] > 0)[wanted].all():
                break
        room = [side - own + 1 for side, own in zip(self.size, sides, strict=True)]
        corners = [below(random(f"erasing {axis}"), count) for axis, count in zip("yx", room, strict=True)]
        return torch.from_numpy(np.stack([*corners, *sides]))

    def __call__(self, images: Tensor, numbers: Tensor) -> Tensor:
        return paint(images, *numbers)


def paint(images: Tensor, y: Tensor, x: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Paint a box `(b,)` of every image `(b, c, y, x)` grey."""
    inside = []
    for first, extent, side in ((y, height, images.shape[2]), (x, width, images.shape[3])):
        away = torch.arange(side, device=images.device) - rearrange(first, "b -> b 1")
        inside.append((away >= 0) & (away < rearrange(extent, "b -> b 1")))
    box = rearrange(inside[0], "b y -> b 1 y 1") & rearrange(inside[1], "b x -> b 1 1 x")
    return images.masked_fill(box, randaugment.grey(images.dtype))
