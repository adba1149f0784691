"""A run that fails or is interrupted ends within seconds."""

import signal

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException

from vit_lightning.private_api import spare_first_process
from vit_lightning.processes import end_children, end_in_time, is_program


class TimelyEnd(Callback):
    """Kill the loaders' workers of a run that has failed: one that died may hold what the others wait for."""

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if not is_program():
            return
        end_children()
        spare_first_process()
        if any(getattr(callback, "save_on_exception", False) for callback in trainer.checkpoint_callbacks):
            return  # however long that takes
        if isinstance(exception, SystemExit | SIGTERMException):
            end_in_time(exception.code if isinstance(exception.code, int) else 1)
        elif isinstance(exception, KeyboardInterrupt):
            end_in_time(128 + signal.SIGINT)
        else:
            end_in_time(1, " ".join(str(exception).split()))
