"""Images of a datamodule as a verb looks at them that trains nothing."""

from typing import Any

import torch
from lightning.pytorch import LightningDataModule

from vit_lightning.data.datamodule import ImageDataModule


class FrozenImages(LightningDataModule):
    """Images of a datamodule, which brings them to the device as ever; a subclass finds and loads them.

    Args:
        data: the datamodule.
    """

    def __init__(self, data: ImageDataModule) -> None:
        super().__init__()
        self.data = data

    def prepare_data(self) -> None:
        self.data.trainer = self.trainer
        self.data.prepare_data()

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return self.data.transfer_batch_to_device(batch, device, dataloader_idx)

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return self.data.on_after_batch_transfer(batch, dataloader_idx)

    def on_exception(self, exception: BaseException) -> None:
        self.data.on_exception(exception)
