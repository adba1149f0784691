"""What a run was told: config.yaml and env.json in its folder, and what a resumed run does otherwise."""

import json
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.cli import LightningArgumentParser
from lightning.pytorch.utilities import rank_zero_info, rank_zero_only

from vit_lightning.compute.peaks import device_name
from vit_lightning.files import write_atomically
from vit_lightning.runs import folders
from vit_lightning.runs.differences import differences
from vit_lightning.runs.environment import environment
from vit_lightning.yaml_files import read_mapping

TRAINER = (
    *("accelerator", "devices", "num_nodes", "strategy", "precision"),
    *("accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm"),
    *("max_epochs", "max_steps", "max_time", "limit_train_batches", "overfit_batches"),
)
"""Flags of the trainer that change what a run learns."""
LOADING = ("num_workers", "in_memory", "cache", "cache_limit", "verify", "download")
"""Flags of the data that do not."""


class RunRecord(Callback):
    """Write the whole config.yaml and env.json into the run folder; a resumed run adds numbered ones.

    Not before the first batch, so that a folder without them is one whose run was refused.
    """

    def __init__(self, parser: LightningArgumentParser, config: Namespace, folder: Path) -> None:
        self.text = parser.dump(config, skip_none=False)
        self.folder = folder
        self.written = False

    @rank_zero_only
    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Print how data and trainer differ from the run's last part; the model compares its own settings."""
        if earlier := folders.configs(self.folder):
            old, new = read_mapping(earlier[-1], "the run's"), yaml.safe_load(self.text)
            for text in differences(of_training(old), of_training(new)).values():
                rank_zero_info(f"differs from the checkpoint: {text}")

    @rank_zero_only
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.written:
            return
        self.written = True
        earlier = len(folders.configs(self.folder))
        suffix = f".resume-{earlier}" if earlier else ""
        write_atomically(self.folder / f"config{suffix}.yaml", self.text)
        facts = json.dumps(environment(str(pl_module.device), device_name(pl_module.device)), indent=2)
        write_atomically(self.folder / f"env{suffix}.json", facts + "\n")


def of_training(config: dict[str, Any]) -> dict[str, Any]:
    """Return what of a config decides what a run learns, beside its model, under the names of the flags."""
    data, trainer = config.get("data") or {}, config.get("trainer") or {}
    chosen = {name: value for name, value in (data.get("init_args") or {}).items() if name not in LOADING}
    return {
        "data": {"class_path": data.get("class_path"), **chosen},
        "trainer": {name: trainer.get(name) for name in TRAINER},
    }
