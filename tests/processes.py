"""Processes of their own for tests: a pair that runs the application over gloo, and one that gets a signal.

Run as a script, it is one of the pair: it takes commands from standard input until that closes.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TIMEOUT = 1800


class Outcome(NamedTuple):
    """What a command left behind: exit status and output of each process."""

    codes: tuple[int, ...]
    logs: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether all processes ended with 0."""
        return not any(self.codes)


class Pair:
    """Processes that run the application together, as torchrun starts them; they import it once and run it many times.

    Args:
        count: Number of processes.
    """

    def __init__(self, count: int = 2) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
        shared |= {"LOCAL_WORLD_SIZE": str(count), "TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"}
        shared |= {"OMP_NUM_THREADS": "1"}
        self.processes = [
            subprocess.Popen(
                [sys.executable, __file__],
                env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for rank in range(count)
        ]

    def run(self, folder: Path, *words: object) -> Outcome:
        """Run `python -m vit_lightning words` in a folder on both."""
        logs = [folder / f"rank{rank}.log" for rank in range(len(self.processes))]
        for process, log in zip(self.processes, logs, strict=True):
            command = {"folder": str(folder), "words": [str(word) for word in words], "log": str(log)}
            print(json.dumps(command), file=process.stdin, flush=True)
        signal.signal(signal.SIGALRM, lambda *_: self.end())
        signal.alarm(TIMEOUT)  # a process that hangs is killed, and its line is then empty
        try:
            lines = [process.stdout.readline() for process in self.processes]
        finally:
            signal.alarm(0)
        texts = tuple(log.read_text() for log in logs)
        assert all(lines), f"no answer after {TIMEOUT} s:\n" + "\n".join(texts)
        return Outcome(tuple(map(int, lines)), texts)

    def end(self) -> None:
        """Kill the processes and all that they started."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def interrupt(folder: Path, signum: int, words: tuple, **environment: str) -> int:
    """Start `fit`, send a signal to its first process once it trains, and return its exit status; all must have ended.

    What it printed is in the file `log`.
    """
    command = [sys.executable, "-m", "vit_lightning", *map(str, words)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + TIMEOUT
        while not list(folder.glob("runs/*/*/metrics.csv")):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.02)
        os.kill(process.pid, signum)
        code = process.wait(TIMEOUT)
        with suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(process.pid, 0)
                time.sleep(0.02)
            raise AssertionError(f"a process outlived the first:\n{(folder / 'log').read_text()}")
        return code
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def serve() -> None:
    """Run the commands that come in; answer each with its exit status."""
    answers = os.fdopen(os.dup(1), "w")
    import torch

    from vit_lightning.__main__ import main

    for line in sys.stdin:
        command = json.loads(line)
        with open(command["log"], "w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            os.chdir(command["folder"])
            sys.path.insert(0, command["folder"])
            sys.argv = ["vit_lightning", *command["words"]]
            try:
                code = main()
            except SystemExit as stop:
                code = stop.code or 0
            except BaseException:
                import traceback

                traceback.print_exc()
                code = 70
            sys.stdout.flush()
            sys.stderr.flush()
        sys.path.remove(command["folder"])
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        print(code, file=answers, flush=True)


if __name__ == "__main__":
    serve()
