"""Which side of a picture is up, as EXIF and TIFF say it."""

from PIL import ExifTags, Image
from torch import Tensor

TURNS = {
    2: (False, (2,)),
    3: (False, (1, 2)),
    4: (False, (1,)),
    5: (True, ()),
    6: (True, (2,)),
    7: (True, (1, 2)),
    8: (True, (1,)),
}
"""What each EXIF orientation asks for: rows and columns swapped or not, then these axes of `(c, y, x)` reversed."""


def orientation(image: Image.Image) -> int:
    """Return the EXIF orientation of an image, 1 (upright) if it has none."""
    try:
        found = image.getexif().get(ExifTags.Base.Orientation)
    except Exception:  # damaged EXIF data do not matter to the picture
        return 1
    return found if found in TURNS else 1


def turned(pixels: Tensor, orientation: int) -> Tensor:
    """Return an image `(c, y, x)` of that orientation upright."""
    turn = TURNS.get(orientation)
    if turn is None:
        return pixels
    swapped, reversed_axes = turn
    return (pixels.mT if swapped else pixels).flip(reversed_axes)
