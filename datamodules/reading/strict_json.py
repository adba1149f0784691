"""JSON in which no key of an object stands twice: Python's own reader keeps the last one without a word."""

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """Return the content of a JSON text.

    Raises:
        ValueError: it is no JSON, or it names a key twice.
    """
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {twice!r:.60} twice")
    return found
