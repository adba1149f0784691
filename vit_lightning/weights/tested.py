"""The scores that a run folder has of one of its checkpoints."""

import json
import math
from pathlib import Path

from vit_lightning.runs import folders
from vit_lightning.runs.checkpoint_names import fingerprint


def scores_of_test(checkpoint: Path) -> dict[str, float]:
    """Return the scores in test.json, if they are of a checkpoint as it is now; of a flipped test those without flip.

    Args:
        checkpoint: in its run folder; of one from elsewhere there are none.
    """
    run, state = folders.folder_of(checkpoint), fingerprint(checkpoint)
    if run is None or state is None:
        return {}
    try:
        facts = json.loads((run / "test.json").read_text(encoding="utf-8"))
        scores = facts["without flip"] if facts.get("flip") else facts["scores"]
        found = {name: float(value) for name, value in scores.items() if type(value) in (int, float)}
        return {name: value for name, value in found.items() if math.isfinite(value) and facts["fingerprint"] == state}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):  # none, an older one, or damaged
        return {}
