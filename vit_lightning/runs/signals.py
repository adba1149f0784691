"""Signals that ask a run to end: recorded when they come, obeyed between two optimiser steps."""

import signal
import threading
from collections import deque
from types import FrameType

import torch
from lightning.pytorch.strategies import Strategy
from torch.distributed import ReduceOp

from vit_lightning.processes import end_in_time

DELAY = 8
"""Steps after which GPUs' processes read what they asked each other."""


class Stop:
    """Whether SIGTERM, the first Ctrl-C or a signal of SLURM has asked a run to end.

    Lightning's own handlers talk to the other processes from inside the handler, where another exchange may be under
    way, and save SLURM's checkpoint amid a step, for whichever run starts next in the same folder.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.requeue_signal: int | None = None

    def listen(self, requeue_signal: int | None = None) -> None:
        """Take over the signals; `requeue_signal` also puts the SLURM job back into the queue."""
        self.requeue_signal = requeue_signal
        if threading.current_thread() is not threading.main_thread():
            return  # where no handler can be set
        for signum in (signal.SIGTERM, signal.SIGINT, requeue_signal):
            if signum is not None:
                signal.signal(signum, self._record)

    @property
    def requeues(self) -> bool:
        """Whether the job shall start again."""
        return self.received is not None and self.received == self.requeue_signal

    def _record(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT and self.received is not None:
            end_in_time(128 + signum)
            raise KeyboardInterrupt
        self.received = self.received or signum


class Agreement:
    """Asks all processes whether a condition holds in any of them; all get the same answer at the same step.

    With several GPUs the answer is that of some steps ago, so that no host waits for its device.

    Args:
        strategy: Says which processes there are.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self._asked: deque[tuple[torch.cuda.Event, torch.Tensor]] = deque()

    def any(self, condition: bool) -> bool:
        """Whether it holds in any process, or, on GPUs, held `DELAY` calls ago."""
        device = self.strategy.root_device
        if device.type != "cuda" or not torch.distributed.is_initialized():
            return self.strategy.reduce_boolean_decision(condition, all=False)
        flag = torch.full((), int(condition), dtype=torch.int32, device=device)
        torch.distributed.all_reduce(flag, ReduceOp.MAX)
        answer, copied = torch.empty((), dtype=torch.int32, pin_memory=True), torch.cuda.Event()
        answer.copy_(flag, non_blocking=True)
        copied.record()
        self._asked.append((copied, answer))
        if len(self._asked) <= DELAY:
            return False
        copied, answer = self._asked.popleft()
        copied.synchronize()
        return bool(answer)
