"""The file behind --data.class_map: a class name per line, in the order of the labels."""

from pathlib import Path

from vit_lightning.errors import InputError


def read_class_map(path: Path) -> list[str]:
    """Return the names, or raise InputError."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "it is not UTF-8 text")
        raise InputError(f"--data.class_map {path} cannot be read: {why}") from error
    return [line.strip() for line in lines if line.strip()]
