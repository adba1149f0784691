"""How two configs differ."""

from typing import Any


def _plain(key: str, value: Any) -> Any:
    """A tuple as the list that a checkpoint may hold, and one side as both."""
    if key == "image_size" and isinstance(value, int):
        return [value, value]
    return list(value) if isinstance(value, tuple) else value


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """`key: old -> new` by dotted key, for values in both dicts that differ."""
    found: dict[str, str] = {}
    for key in old.keys() & new.keys():
        a, b = old[key], new[key]
        if isinstance(a, dict) and isinstance(b, dict):
            found |= differences(a, b, f"{prefix}{key}.")
        elif _plain(key, a) != _plain(key, b):
            found[f"{prefix}{key}"] = f"{prefix}{key}: {a} -> {b}"
    return dict(sorted(found.items()))
