"""The door: with which status it ends, and what it does with garbage."""

import gc
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vit_lightning import __main__ as door
from vit_lightning import __version__
from vit_lightning.cli.run import Ended, run_file_verb

COUNTS = """
import gc
import os
import signal
from pathlib import Path

from lightning.pytorch import Callback


class Count(Callback):
    def on_train_start(self, trainer, pl_module):
        Path("counted").write_text(f"{gc.isenabled()} {gc.get_freeze_count()} {gc.collect()} {len(gc.get_objects())}")
"""


def test_a_collection_amid_a_run_has_little_to_go_through(app, monkeypatch, tmp_path):
    """What was there before the run is left aside until it ends."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "counts.py").write_text(COUNTS)
    words = ("--data", "Synthetic", "--data.train_size", 16, "--data.batch_size", 8, "--model.net.variant", "mu/8")
    run = app(
        "fit", *words, "--trainer.accelerator", "cpu", "--trainer.max_epochs", 1, "--trainer.callbacks+=counts.Count"
    )
    assert run.code == 0, run.err
    enabled, frozen, _, watched = Path("counted").read_text().split()
    assert enabled == "True" and int(frozen) > 5 * int(watched)
    assert gc.get_freeze_count() == 0 and gc.isenabled()


@pytest.mark.parametrize(
    ("signum", "code", "said"),
    [(signal.SIGINT, 130, "interrupted\n"), (signal.SIGTERM, 143, "error: ended by SIGTERM before it was done\n")],
)
def test_a_signal_amid_the_first_imports_is_one_sentence(tmp_path, signum, code, said):
    """A module that the door imports sends it, so that no clock decides what it meets."""
    (tmp_path / "difflib.py").write_text(
        f"import os\nos.kill(os.getpid(), {int(signum)})\nraise SystemExit('missed')\n"
    )
    places = os.pathsep.join([str(tmp_path), str(Path(door.__file__).parent.parent)])
    words = [sys.executable, "-m", "vit_lightning", "export", "w.ckpt", "out"]
    environment = os.environ | {"PYTHONPATH": places}

    def hear() -> None:
        """A shell lets what it starts in the background ignore Ctrl-C."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path, preexec_fn=hear)
    assert (done.returncode, done.stderr, done.stdout) == (code, said, "")
    assert not (tmp_path / "out").exists()


def test_what_libraries_say_of_sigterm_is_not_printed(caplog):
    """Whoever it meets, such as a tracer, may catch what it raises and report it first."""
    library = logging.getLogger("a_library")

    def verb() -> None:
        """A verb of files."""
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except SystemExit:
            library.error("a text of twenty lines")
            raise

    with pytest.raises(Ended):
        run_file_verb(verb, [])
    assert not caplog.messages
    library.error("printed again")
    assert caplog.messages == ["printed again"]


@pytest.mark.parametrize(
    ("stop", "code", "said"),
    [(KeyboardInterrupt, 130, "interrupted\n"), (Ended, 143, "error: ended by SIGTERM before it was done\n")],
)
def test_an_exception_that_a_signal_caused_is_the_signals_sentence(monkeypatch, capsys, stop, code, said):
    """A library that cleans up after a signal may fail at that, and its exception takes the place of the signal's."""

    def run(words: list[str]) -> None:
        try:
            raise stop
        finally:
            raise RuntimeError("the mode stack is not empty")

    monkeypatch.setattr(door, "run", run)
    assert (door.main(), capsys.readouterr().err) == (code, said)


def interrupted() -> None:
    raise KeyboardInterrupt


def interrupted_in_lightning() -> None:
    try:
        interrupted()
    except KeyboardInterrupt:
        sys.exit(1)


@pytest.mark.parametrize("run", [interrupted, interrupted_in_lightning])
def test_ctrl_c_is_one_word_and_the_status_that_shells_have(monkeypatch, capsys, run):
    monkeypatch.setattr(door, "run", lambda words: run())
    assert door.main() == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_other_ends_keep_their_status(monkeypatch):
    monkeypatch.setattr(door, "run", lambda words: sys.exit(143))
    with pytest.raises(SystemExit) as end:
        door.main()
    assert end.value.code == 143


def test_sigterm_ends_what_scores_with_its_own_status(app, monkeypatch):
    """Lightning would end a test between two batches with 0."""
    from vit_lightning.classifier import Classifier

    words = ("--data", "Synthetic", "--data.train_size", 16, "--data.batch_size", 8, "--model.net.variant", "mu/8")
    assert app("fit", *words, "--trainer.accelerator", "cpu", "--trainer.max_epochs", 1).code == 0
    monkeypatch.setattr(Classifier, "test_step", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    handler = signal.getsignal(signal.SIGTERM)
    done = app("test", *words, "--trainer.accelerator", "cpu", "--ckpt_path", "last")
    assert done.code == 143 and done.err.endswith("error: ended by SIGTERM before it was done\n")
    assert signal.getsignal(signal.SIGTERM) is handler


FIT = ("fit", "--data", "Synthetic", "--data.train_size", "32", "--data.eval_size", "8", "--data.batch_size", "8")
FIT += ("--data.num_workers", "0", "--model.net.variant", "mu/8", "--trainer.accelerator", "cpu")


def start(folder: Path, *words: str, shell: str = 'exec "$@"', **how) -> subprocess.Popen:
    """Start the program through a shell."""
    command = ["sh", "-c", shell, "sh", sys.executable, "-m", "vit_lightning", *words]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, **how)


def test_a_reader_that_ends_early_gets_no_traceback(tmp_path):
    process = start(tmp_path, *FIT, "--trainer.max_epochs", "100000", stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait() == 141
    assert said.splitlines()[-1].startswith("error: nobody reads the output any more")
    assert "Traceback" not in said and "Exception ignored" not in said


def test_a_closed_output_changes_nothing(tmp_path):
    process = start(tmp_path, *FIT, shell='exec "$@" >&-')
    said = process.stderr.read()
    assert process.wait() == 0, said
    assert (tmp_path / "runs/default/0/checkpoints/last.ckpt").is_file()


def test_a_program_ends_with_the_one_that_started_it(tmp_path):
    """As a fit does with its sweep: the variable names the starter, which is killed."""
    code = "import os, subprocess, sys; os.environ['VIT_LIGHTNING_STARTED_BY'] = str(os.getpid())\n"
    code += "child = subprocess.Popen(sys.argv[1:]); child.wait()"
    words = [sys.executable, "-m", "vit_lightning", *FIT, "--trainer.max_epochs", "100000"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    starter = subprocess.Popen([sys.executable, "-c", code, *words], cwd=tmp_path, env=environment, **pipes)
    while not list(tmp_path.glob("runs/*/*/metrics.csv")):
        assert starter.poll() is None
        time.sleep(0.05)
    starter.kill()
    starter.wait()
    assert "stopped by a signal" in starter.stdout.read()  # up to the end of the fit, which holds it open
    assert (tmp_path / "runs/default/0/checkpoints/last.ckpt").is_file()


def test_the_version_is_printed(app):
    assert app("--version").out == f"vit-lightning {__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_is_full_is_named_as_such():
    command = [sys.executable, "-m", "vit_lightning", "--version"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0].startswith("error: the standard output: No space left on device; free space")
