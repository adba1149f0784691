"""What of a recipe's settings a person is told: which part of the net is trained, and what has an effect."""

from collections.abc import Mapping
from typing import Any

NEEDED_BY: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "optim": ("name", {"momentum": ("sgd",), "betas": ("adam", "adamw", "muon")}),
    "schedule": ("decay", {"end_lr": ("linear",), "timescale": ("rsqrt",), "milestones": ("step",)}),
}
"""Of each part the field that chooses a rule, and which rules read the fields that not all of them read."""
PERMISSIONS = ("allow_horizon_change",)
"""Fields that change no number of a run."""


def effective(part: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those settings of a part of a recipe, such as schedule, that its rule reads."""
    field, readers = NEEDED_BY.get(part, ("", {}))
    rule = settings.get(field)
    return {
        name: value
        for name, value in settings.items()
        if name not in PERMISSIONS and (name not in readers or rule in readers[name])
    }


def trained_part(settings: Mapping[str, Any]) -> str:
    """Return which part of a net is trained, from `freeze_trunk`, `bias_only` and `lora` of a model."""
    lora = settings.get("lora")
    if rank := lora.get("rank") if isinstance(lora, Mapping) else None:
        return f"low-rank updates of rank {rank}, and the head"
    if settings.get("freeze_trunk"):
        return "the head alone; the net before it was frozen"
    return "the biases, and the head" if settings.get("bias_only") else "all parameters"
