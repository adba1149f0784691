"""Processes of their own for tests: a pair that runs the application over gloo, a program, and one that gets a signal.

The pair and the programs are forked from a process that has imported the application, which takes seconds.
"""

import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

TIMEOUT = 1800
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["vit_lightning.cli.vit_cli", "torch.utils.tensorboard", "datamodules.synthetic"])


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
        method: How they start; spawn: each imports by itself, as those must whose loaders have processes of their own.
    """

    def __init__(self, count: int = 2, method: str = "forkserver") -> None:
        context = multiprocessing.get_context(method)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
        shared |= {"LOCAL_WORLD_SIZE": str(count), "TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"}
        shared |= {"OMP_NUM_THREADS": "1"}
        self.processes, self.connections = [], []
        for rank in range(count):
            ours, theirs = context.Pipe()
            environment = os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            process = context.Process(target=serve, args=(theirs, environment))
            process.start()
            theirs.close()  # else the other's end would not show
            self.processes.append(process)
            self.connections.append(ours)

    def run(self, folder: Path, *words: object) -> Outcome:
        """Run `python -m vit_lightning words` in a folder on both."""
        logs = [folder / f"rank{rank}.log" for rank in range(len(self.processes))]
        for connection, log in zip(self.connections, logs, strict=True):
            connection.send((str(folder), [str(word) for word in words], str(log)))
        codes: list[int] = []
        with suppress(EOFError):  # of one that is gone
            codes.extend(connection.recv() for connection in self.connections if connection.poll(TIMEOUT))
        texts = tuple(log.read_text() for log in logs)
        assert len(codes) == len(logs), f"a process ended, or gave no answer in {TIMEOUT} s:\n" + "\n".join(texts)
        return Outcome(tuple(codes), texts)

    def end(self) -> None:
        """Kill the processes and all that they started."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()  # if it has no group yet
            process.join()


class Program:
    """`python -m vit_lightning words` in a process of its own, which has imported the application before it begins.

    Where the imports, a signal or the installed program is the point, start the interpreter instead.

    Args:
        words: What follows the program's name.
        folder: Where it runs, and where its output is written.
        environment: Its variables; PYTHONPATH goes before what the tests import from.
        name: Of the files with its output.
    """

    def __init__(self, words: Iterable[object], folder: Path, environment: dict[str, str], name: str = "program"):
        self.words, self.files = [str(word) for word in words], [folder / f"{name}.{end}" for end in ("out", "err")]
        self.process = FORKED.Process(target=be_program, args=(self.words, folder, environment, *self.files))
        self.process.start()

    def end(self) -> subprocess.CompletedProcess:
        """Wait for it, at most `TIMEOUT`, and return its exit status and output."""
        self.process.join(TIMEOUT)
        self.process.kill()
        self.process.join()
        return subprocess.CompletedProcess(
            self.words, self.process.exitcode, *(file.read_text() for file in self.files)
        )


def program(words: Iterable[object], folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run `python -m vit_lightning words` in a folder, with further variables; see `Program`."""
    return Program(words, folder, os.environ | environment).end()


def be_program(words: list[str], folder: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    """Become what `python -m vit_lightning words` starts, as far as a process can that has imported it."""
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
    _enter(folder, environment)
    sys.path[:0] = [str(folder), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["vit_lightning", *words]
    runpy.run_module("vit_lightning", run_name="__main__", alter_sys=True)


def _enter(folder: Path | str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


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


def serve(commands: Connection, environment: dict[str, str]) -> None:
    """Run the commands that come in, until their sender is gone; answer each with its exit status."""
    os.setsid()
    _enter(Path.cwd(), environment)
    import torch

    from vit_lightning.__main__ import main

    torch.set_num_threads(1)
    while True:
        try:
            folder, words, log = commands.recv()
        except EOFError:
            return
        with open(log, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(folder)
        sys.path.insert(0, folder)
        sys.argv = ["vit_lightning", *words]
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
        sys.path.remove(folder)
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        commands.send(code)
