"""VTAB's own labels: what is asked about images that were published for something else.

Source: the task definitions of google-research/task_adaptation.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

CLEVR_BANDS = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0)
"""Borders between the classes of the nearest object's distance, in CLEVR's own unit."""

KITTI_BANDS = (-100.0, 8.0, 20.0, 999.0)
"""Borders between the classes of the nearest vehicle's distance, in metres."""

NO_VEHICLE = 1000.0
"""Distance in metres that stands for an empty road."""

VEHICLES = ("Car", "Van", "Truck")


def band(value: float, borders: Sequence[float]) -> int:
    """Return the greatest i for which borders[i] lies below the value; a value on a border belongs to the lower band.

    -1, which no task has as a class, means that the value is not even above the first border.
    """
    return bisect_left(borders, value) - 1


def clevr_count(scene: Mapping) -> int:
    """Return the number of objects in a CLEVR scene, 3 to 10, as a class from 0 to 7."""
    return len(scene["objects"]) - 3


def clevr_distance(scene: Mapping) -> int:
    """Return the band, 0 to 5, of the smallest depth among a CLEVR scene's objects."""
    return band(min(thing["pixel_coords"][2] for thing in scene["objects"]), CLEVR_BANDS)


def kitti_distance(objects: Iterable[tuple[str, float]]) -> int:
    """Return the band, 0 to 3, of the nearest vehicle; 3 means that there is none.

    Args:
        objects: type and depth in metres of everything that KITTI annotates in an image.
    """
    return band(min((depth for kind, depth in objects if kind in VEHICLES), default=NO_VEHICLE), KITTI_BANDS)


def dsprites_location(latents: np.ndarray) -> np.ndarray:
    """Return the horizontal position, 32 places in 16 classes.

    Args:
        latents: dSprites' classes of colour, shape, scale, orientation, x and y, `(n, 6)`.
    """
    return latents[:, 4] // 2


def dsprites_orientation(latents: np.ndarray) -> np.ndarray:
    """Return the orientation, 40 angles in 16 classes of 2.5 angles each, from latents `(n, 6)`."""
    return latents[:, 3] * 2 // 5


def smallnorb_azimuth(info: np.ndarray) -> np.ndarray:
    """Return the azimuth, which the file counts 0, 2, ... 34, as a class from 0 to 17.

    Args:
        info: smallNORB's instance, elevation, azimuth and lighting, `(n, 4)`.
    """
    return info[:, 2] // 2


def smallnorb_elevation(info: np.ndarray) -> np.ndarray:
    """Return the elevation, a class from 0 to 8, from info `(n, 4)`."""
    return info[:, 1]
