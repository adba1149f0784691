"""Fixtures shared by all tests: the real-data kit, the reference outputs, and the application."""

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from tests import parser_memory
from tests.processes import Pair

KIT = "VIT_LIGHTNING_KIT"

# Processes that tests start import this checkout, not what is installed.
CHECKOUT = str(Path(__file__).resolve().parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (CHECKOUT, os.environ.get("PYTHONPATH"))))

settings.register_profile("vit_lightning", deadline=None)  # how busy the machine is says nothing about a property
settings.load_profile("vit_lightning")


parser_memory.keep()
# Each look at the oldest objects goes through a million of imported libraries' and collected tests'.
gc.set_threshold(700, 10, 100)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker files as a whole, as far as it goes, so that their fixtures are made once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Make printable what a test printed: pytest-xdist sends UTF-8 alone, and names of files need not be that."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def kit() -> Path:
    """Folder of real images and weights, named by the environment variable VIT_LIGHTNING_KIT."""
    if KIT not in os.environ:
        pytest.skip(f"set {KIT} to the folder of the real-data kit")
    return Path(os.environ[KIT]).resolve()


@pytest.fixture(scope="session")
def golden(kit: Path) -> Path:
    """Folder of reference outputs of the original implementations, beside the kit."""
    return kit.parent / "golden"


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def open_streams() -> None:
    """Let Lightning's loggers write to stderr as it is: the one at import was an earlier test's, closed since."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        for handler in logging.getLogger(name).handlers:
            if type(handler) is logging.StreamHandler:  # not pytest's own, which it adds to loggers like these
                handler.stream = sys.stderr


@pytest.fixture
def app(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture, tmp_path: Path
) -> Iterator[Callable[..., Outcome]]:
    """`python -m vit_lightning`, in this process and in an empty folder, with what it printed."""
    from vit_lightning.__main__ import main
    from vit_lightning.runs.folders import RUN_ENV

    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: object) -> Outcome:
        monkeypatch.setattr("sys.argv", ["vit_lightning", *map(str, words)])
        capfd.readouterr()
        open_streams()
        try:
            code = main()
        except SystemExit as stop:  # help and --print_config
            code = stop.code or 0
        return Outcome(code, *capfd.readouterr())

    yield run
    os.environ.pop(RUN_ENV, None)  # else processes that later tests start take this run for their own


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Two processes that run the application together; started once for a file."""
    pair = Pair()
    yield pair
    pair.end()


@pytest.fixture
def together(pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """The application on both processes, in the folder in which `app` runs; returns what the first one printed."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object, code: int = 0) -> str:
        done = pair.run(tmp_path, *words)
        assert done.codes == (code, code), "\n".join(done.logs)
        return done.logs[0]

    return run
