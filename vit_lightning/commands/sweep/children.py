"""The processes of a sweep: each with its GPU, and all asked to end when the sweep is."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Children:
    """Starts processes, as many at once as there are jobs.

    Args:
        jobs: How many run at once; with several, each has a GPU of its own, as far as there are enough.
    """

    def __init__(self, jobs: int) -> None:
        self.received: int | None = None
        self._running: set[subprocess.Popen] = set()
        self._slots: SimpleQueue[dict[str, str]] = SimpleQueue()
        gpus = visible_gpus() if jobs > 1 else []
        threads = os.environ.get("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // jobs, 1)))
        for number in range(jobs):
            gpu = {"CUDA_VISIBLE_DEVICES": gpus[number % len(gpus)]} if gpus else {}
            self._slots.put(gpu | ({"OMP_NUM_THREADS": threads} if jobs > 1 else {}))

    def call(self, words: list[str], log: Path, lock: int) -> int | None:
        """Run a process.

        Args:
            words: Its command line.
            log: File that its output is appended to.
            lock: Descriptor of a lock, which the process holds too: should the sweep be killed, it stays locked.

        Returns:
            The exit status, or None once the sweep shall end.
        """
        if self.received:
            return None
        slot = self._slots.get()
        try:
            with log.open("a") as output:
                print(f"$ {shlex.join(words)}", file=output, flush=True)
                # A session of its own: Ctrl-C in the terminal comes from us alone, once.
                files = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT, "pass_fds": [lock]}
                child = subprocess.Popen(words, env=os.environ | slot, start_new_session=True, **files)
                self._running.add(child)
                if self.received:  # while it was started
                    child.terminate()
                code = child.wait()
        finally:
            self._slots.put(slot)
        self._running.discard(child)
        return None if self.received else code

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hand signals that end the sweep on to the processes: a fit then saves its state; a second one kills."""
        before = {signum: signal.signal(signum, self._end) for signum in ENDING}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)

    def _end(self, signum: int, frame: FrameType | None) -> None:
        again, self.received = self.received is not None, signum
        for child in list(self._running):
            child.kill() if again else child.terminate()


def visible_gpus() -> list[str]:
    """Names of the GPUs that a process may use, as CUDA_VISIBLE_DEVICES has them."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    try:
        done = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(number) for number, _ in enumerate(line for line in done.stdout.splitlines() if line.startswith("GPU"))]
