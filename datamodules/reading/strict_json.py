"""JSON in which no key of an object stands twice: Python's own reader keeps the last one without a word."""

import json
import re
from typing import Any

HALF = re.compile(r"\\u[dD][89a-fA-F]")
HALF_IN_BYTES = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""What may be half of a character of UTF-16; two such stand for one."""


def loads(text: str | bytes) -> Any:
    """Return the content of a JSON text.

    Raises:
        ValueError: it is no JSON, names a key twice, or holds half a character.
    """
    found = json.loads(text, object_pairs_hook=_object)
    if HALF.search(text) if isinstance(text, str) else HALF_IN_BYTES.search(text):
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise ValueError(f"it holds half a character, {half} alone; write the whole one") from error
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {twice!r:.60} twice")
    return found
