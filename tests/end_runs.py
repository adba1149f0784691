"""Kill and interrupt real commands at random moments; count those that hang and the processes that they leave.

    python -m tests.end_runs --count 30 --seed 0

Each start is a fit, predict, prepare, sweep or export through `python -m vit_lightning`, on the CPU with two loader
workers. At a moment drawn evenly from the time that the command takes alone, one of these comes: SIGKILL to a worker;
SIGKILL to the main process; the same while a worker is stopped right after its start; Ctrl-C twice; SIGTERM. Ten
seconds later nothing of the command may be left. A command whose worker was killed says so in one sentence. Linux only.
"""

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

MARK = "VIT_LIGHTNING_TEST_MARK"
LIMIT = 10.0
"""Seconds after which nothing may be left."""
TIMEOUT = 1800
DATA = "--data Synthetic --data.train_size 512 --data.eval_size 64 --data.batch_size 4 --data.image_size 32"
READ = f"{DATA} --data.num_workers 2 --data.in_memory false"
FIT = f"fit {READ} --model.net.variant mu/8 --trainer.accelerator cpu --trainer.max_epochs 4"
COMMANDS = {
    "fit": FIT,
    "predict": f"predict {READ} --data.eval_size 512 --trainer.accelerator cpu --ckpt_path last",
    "prepare": f"prepare {DATA} --data.train_size 6000 --out {{name}} --data.num_workers 2",
    "sweep": "sweep {name}.yaml --jobs 2 --runs {name}",
    "export": "export runs/default/0/checkpoints/last.ckpt {name} --to torch_export",
}
ATTACKS = ("kill a worker", "kill", "kill while a worker is stopped", "Ctrl-C twice", "SIGTERM")


class Start(NamedTuple):
    """A command under way."""

    process: subprocess.Popen
    mark: str
    log: Path

    def others(self) -> list[int]:
        """Its processes but the first, and but the helpers of libraries, such as ldconfig, that imports start."""
        return [pid for pid in marked(self.mark) if pid != self.process.pid and b"vit_lightning" in words_of(pid)]


def words_of(pid: int) -> bytes:
    """The command line of a process; a loader's worker has that of its parent."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def marked(mark: str) -> list[int]:
    """Processes that have a mark in their environment and still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def start(folder: Path, verb: str, name: str) -> Start:
    """Start a command in a folder; one that hears Ctrl-C, even where this program runs in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    mark, log = uuid4().hex, folder / f"{name}.log"
    (folder / f"{name}.yaml").write_text(f"fit: {FIT.removeprefix('fit ')}\nover: {{--seed_everything: [0, 1]}}\n")
    words = shlex.split(COMMANDS[verb].format(name=name))
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "vit_lightning", *words],
            cwd=folder,
            env=os.environ | {MARK: mark},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Start(process, mark, log)


def attack(started: Start, how: str) -> bool:
    """Attack a command; return whether it was still there to be attacked."""
    main = started.process
    if how in ("kill a worker", "kill while a worker is stopped"):
        before = set(started.others()) if how != "kill a worker" else set()
        while not (children := [pid for pid in started.others() if pid not in before]):
            if main.poll() is not None:
                return False
            time.sleep(0.001)
        if how == "kill a worker":
            time.sleep(0.05)
            if children[0] not in started.others():  # a library's helper, seen before it became another program
                return attack(started, how)
        with suppress(ProcessLookupError):
            os.kill(children[0], signal.SIGKILL if how == "kill a worker" else signal.SIGSTOP)
        if how != "kill a worker":
            main.kill()
            main.wait()
            with suppress(ProcessLookupError):
                os.kill(children[0], signal.SIGCONT)
    elif main.poll() is not None:
        return False
    elif how == "kill":
        main.kill()
    elif how == "SIGTERM":
        main.terminate()
    else:
        main.send_signal(signal.SIGINT)
        time.sleep(0.3)
        main.send_signal(signal.SIGINT)
    return True


def faults(started: Start, limit: float) -> list[str]:
    """What is wrong with how a command ended: it hung, left processes, or said more than a sentence."""
    deadline, found = time.monotonic() + limit, []
    while (started.process.poll() is None or marked(started.mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = marked(started.mark)
    if started.process.poll() is None:
        found.append("hung")
        left = [pid for pid in left if pid != started.process.pid]
    if left:
        found.append(f"left {len(left)} processes")
    if "Traceback" in (text := started.log.read_text(errors="replace")):
        found.append(f"traceback:\n{text[-3000:]}")
    return found


def end(started: Start) -> None:
    """Kill all that is left of a command."""
    for pid in marked(started.mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    started.process.wait()


def durations(folder: Path) -> dict[str, float]:
    """Seconds that each command takes alone."""
    found = {}
    for verb in COMMANDS:
        began, started = time.monotonic(), start(folder, verb, verb)
        try:
            if started.process.wait(TIMEOUT):
                raise RuntimeError(f"{verb} failed:\n{started.log.read_text()}")
        finally:
            end(started)
        found[verb] = time.monotonic() - began
    return found


def prove(folder: Path, count: int, seed: int) -> int:
    """Print one line per start; return how many did not end as they should."""
    alone, chance, bad = durations(folder), random.Random(seed), 0
    print(", ".join(f"{verb} takes {seconds:.0f} s" for verb, seconds in alone.items()), flush=True)
    pairs = [
        (verb, how) for how in ATTACKS for verb in COMMANDS if (verb, how[:4]) != ("export", "kill") or how == "kill"
    ]
    for number in range(1, count + 1):
        verb, how = pairs[(number - 1) % len(pairs)]
        attacked, tries = False, 0
        while not attacked:
            tries += 1
            early = 0.5 if "stopped" in how else 1.0  # most workers start early
            seconds = chance.uniform(0, alone[verb] * early)
            started = start(folder, verb, f"{verb}{number}-{tries}")
            try:
                with suppress(subprocess.TimeoutExpired):
                    started.process.wait(seconds)
                attacked = attack(started, how)
                # A sweep goes on without the run whose process was killed.
                limit = LIMIT + 3 * alone[verb] * (verb == "sweep" and how == "kill a worker")
                wrong = faults(started, limit) if attacked else []
            finally:
                end(started)
        bad += bool(wrong)
        said = "; ".join(wrong) or "ended"
        print(f"{number:2}: {verb}, {how} after {seconds:.1f} s: {said}", flush=True)
    print(f"{count - bad} of {count} starts ended within {LIMIT:.0f} s and left nothing")
    return bad


def main() -> int:
    """Read the command line and prove."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30, help="commands to start")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 1 if prove(Path(folder), options.count, options.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
