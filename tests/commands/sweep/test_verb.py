"""The verb sweep through the command line, over a stand-in for the runs; one real run at the end."""

import csv
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.processes import Program
from vit_lightning.commands.sweep import children, run
from vit_lightning.commands.sweep import verb as module
from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.commands.sweep.shards import shard_of
from vit_lightning.compute.cost import training_flops
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig

RUN = """
import json, os, signal, sys, time
from pathlib import Path
words = sys.argv[1:]
if words[0] == "plan":
    sys.exit("error: too bold" if words[words.index("--rate") + 1] == "7" else 0)
if "--print_config" in words:
    sys.exit("error: there is no flag --tpyo" if "--tpyo" in words or "--ckpt_path" in words else 0)
value = lambda flag: words[words.index(flag) + 1] if flag in words else None
root = Path(value("--trainer.default_root_dir"))
print("CALL", os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("OMP_NUM_THREADS"))
if value("--fail") == value("--seed_everything") and not Path("mended").exists():
    print("error: the learning rate is too bold"); sys.exit(1)
seed = int(value("--seed_everything") or 0)
if words[0] != "fit":
    folder = root / value("--trainer.logger.name") / "version_0"
    folder.mkdir(parents=True)
    if Path("silent").exists() and seed == 1:
        sys.exit(0)
    (folder / "metrics.csv").write_text(f"epoch,step,test/top1\\n0,0,{0.5 + seed / 10 + float(value('--rate'))}\\n")
    sys.exit()
folder = root / "digits" / "0"
(folder / "checkpoints").mkdir(parents=True, exist_ok=value("--ckpt_path") == "last")
print("device   H100 80GB, precision 32-true")
(folder / "env.json").write_text(json.dumps({"versions": {"torch": "2.9", "vit-lightning": "0.1.0"}, "device": "x",
    "git_commit": "0123456789abc", "git_dirty": True}))
lines = ["perf/images_per_s,step,train/loss,val/loss,val/top1,cost/exaflops,lr/a"]
for step in range(9, 1000, 10):
    lines.append(f"{step},{step},{1 / (step + 1)},,,{step / 3},0.1")
    lines.append(f",{step},,{1 / (step + 1)},{0.9 if step == 499 else step / 2000},,")
(folder / "metrics.csv").write_text("\\n".join(lines) + "\\n")
def leave(*_):
    import zipfile
    zipfile.ZipFile(folder / "checkpoints/last.ckpt", "w").close()
    print("stopped by a signal at optimiser step 7", flush=True); os._exit(0)
if value("--wait") and not value("--ckpt_path"):
    signal.signal(signal.SIGTERM, leave)
    Path("ready").write_text(str(os.getpid()))
    time.sleep(60)
"""
PLAN = """
fit: --base {BASE}
then: [test --ckpt_path last]
over:
  rate: {0.01: --rate 0.01, 0.1: --rate 0.1}
  --seed_everything: [0, 1, 2]
figure: {x: rate, y: test/top1, spread: seed_everything, xscale: log}
"""


@pytest.fixture
def sweep(app, monkeypatch, tmp_path):
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "rates.yaml").write_text(PLAN)
    monkeypatch.setattr(run, "PYTHON_MODULE", (sys.executable, str(tmp_path / "run.py")))
    monkeypatch.setattr(children, "visible_gpus", lambda: [])
    return lambda *words, base="1": app("sweep", "rates.yaml", f"--set=BASE={base}", *words)


def rows(name: str = "rates") -> list[dict[str, str]]:
    """Rows of runs that have finished."""
    with Path(f"results/{name}.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["status"] == "finished"]


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 1800
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def calls(cell: str) -> list[str]:
    return [line for line in Path("runs/rates", cell, "log.txt").read_text().splitlines() if line.startswith("$ ")]


def test_all_cells_run_and_leave_a_row_each_in_the_plans_order(sweep):
    done = sweep("--jobs", 3)
    assert done.code == 0, done.err
    found = rows()
    assert [(row["rate"], row["seed_everything"]) for row in found] == [
        (rate, seed) for rate in ("0.01", "0.1") for seed in "012"
    ]
    row = found[4]
    assert list(row)[:3] == ["rate", "seed_everything", "test/top1"]
    assert row["test/top1"] == "0.7"
    assert (row["val/top1"], row["best val/top1"], row["best val/loss"]) == ("0.4995", "0.9", "0.001")
    assert (row["train/loss"], row["perf/images_per_s"], row["cost/exaflops"]) == ("0.001", "504", "333")
    assert (row["device"], row["precision"], row["torch"]) == ("H100 80GB", "32-true", "2.9")
    assert (row["version"], row["commit"]) == ("0.1.0", "012345678+")
    assert "lr/a" not in row and float(row["seconds"]) >= 0 and row["date"][:2] == "20"
    assert done.out.count("start    rates/") == 6
    assert sum(line.startswith("done") and line.endswith("test/top1 70.00 %") for line in done.out.splitlines()) == 1
    assert "70.00 ± 10.00 %" in done.out  # the mean of 0.6, 0.7, 0.8
    assert "<svg" in Path("results/rates.svg").read_text()


def test_curves_are_thinned_with_both_ends(sweep):
    sweep()
    with Path("results/rates.curves.csv").open() as file:
        curve = [line for line in csv.DictReader(file) if (line["rate"], line["seed_everything"]) == ("0.1", "2")]
    assert len(curve) == 50
    assert (curve[0]["step"], curve[-1]["step"], curve[-1]["val/top1"]) == ("10", "1000", "0.4995")


def test_runs_without_curves_leave_no_file_for_them(sweep, monkeypatch):
    monkeypatch.setattr("vit_lightning.commands.sweep.results.POINTS", 0)
    sweep()
    assert rows() and not Path("results/rates.curves.csv").exists()


def test_called_again_it_leaves_what_is_finished_alone_and_writes_the_same(sweep):
    assert sweep("--jobs", 2).code == 0
    before = {path: path.read_bytes() for path in Path("results").iterdir()}
    again = sweep()
    assert "6 runs, 6 finished before" in again.out and "start" not in again.out
    assert before == {path: path.read_bytes() for path in Path("results").iterdir()}


def test_shards_build_the_same_table_together(sweep):
    assert sweep("--shard", "1/2").code == 0
    assert [row["seed_everything"] for row in rows()] == ["0", "2", "1"]
    assert sweep("--shard", "2/2").code == 0
    assert len(rows()) == 6


def test_a_dry_run_shows_commands_and_writes_nothing(sweep, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    done = sweep("--dry_run", "--shard", "1/6", base="a b")
    assert done.code == 0, done.err
    cell = "runs/rates/rate=0.01,seed_everything=0"
    words = "--base 'a b' --rate 0.01 --seed_everything 0"
    assert done.out.splitlines()[2].endswith(f" fit {words} --trainer.default_root_dir {cell}")
    assert f" test {words} --ckpt_path last --trainer.default_root_dir {cell} --trainer.logger" in done.out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("place", ["fit", "then", "label"])
def test_a_dry_run_finds_a_mistyped_flag(sweep, tmp_path, place):
    typo = {"fit": ("--base {BASE}", "--base {BASE} --tpyo 1"), "then": ("path last", "path last --tpyo 1")}
    typo |= {"label": ("--rate 0.1}", "--rate 0.1 --tpyo 1}")}
    Path("rates.yaml").write_text(PLAN.replace(*typo[place]))
    done = sweep("--dry_run")
    assert done.code == 1
    cell = f"rates/rate={'0.1' if place == 'label' else '0.01'},seed_everything=0"
    assert done.err == f"error: {cell}: there is no flag --tpyo\n"
    assert not Path("runs").exists()


def test_a_dry_run_parses_each_value_of_the_fits_once(sweep, monkeypatch):
    called, call = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda words, **kwargs: called.append(words) or call(words, **kwargs))
    monkeypatch.setattr(run, "PAUSE", -1)
    done = sweep("--dry_run")
    assert done.code == 0
    words = sorted(" ".join(words[2:]) for words in called if words[2] != "plan")
    values = [("0.01", 0), ("0.01", 1), ("0.01", 2), ("0.1", 0)]
    fits = [f"fit --base 1 --rate {rate} --seed_everything {seed} --print_config" for rate, seed in values]
    assert words == [*fits, "test --base 1 --rate 0.01 --seed_everything 0 --print_config"]
    assert "checked 5 of 5 command lines" in done.out


def test_a_dry_run_asks_the_real_parser(app, monkeypatch, tmp_path):
    """In processes that have imported it; that of a real run is what a person gets."""
    count = itertools.count()

    def parse(words, **_):
        assert tuple(words[:3]) == (sys.executable, "-m", "vit_lightning")
        return Program(words[3:], tmp_path, {**os.environ}, f"parser{next(count)}").end()

    monkeypatch.setattr(run.subprocess, "run", parse)
    words = "--data Synthetic --model.net.varant mu/4"
    Path("real.yaml").write_text(f"fit: {words}\nthen: [test --ckpt_path last]\nover: {{--seed_everything: [3]}}\n")
    done = app("sweep", "real.yaml", "--dry_run")
    said = "real/seed_everything=3: there is no flag --model.net.varant; did you mean --model.net.variant?"
    assert done.code == 1 and done.err == f"error: {said}\n"
    mended = Path("real.yaml").read_text().replace("varant", "variant")
    Path("real.yaml").write_text(mended.replace("[3]", "[3, three]"))
    done = app("sweep", "real.yaml", "--dry_run")
    assert done.code == 1 and done.err.startswith("error: real/seed_everything=three: --seed_everything")
    Path("real.yaml").write_text(mended.replace("mu/4", "mu/4 --model.schedule.warmup_steps 9 --trainer.max_steps 4"))
    done = app("sweep", "real.yaml", "--dry_run")
    assert done.code == 1 and done.err.startswith("refused  real/seed_everything=3: warm-up of 9 steps"), done.err
    assert not Path("runs").exists()


def test_the_time_of_a_killed_sweep_s_attempt_counts(sweep):
    assert sweep().code == 0
    folder = Path("runs/rates/rate=0.1,seed_everything=2")
    record = json.loads((folder / "cell.json").read_text())
    now = time.time()
    (folder / "cell.json").write_text(json.dumps(record | {"done": 0, "seconds": 100.0, "began": now - 3600}))
    os.utime(folder / "log.txt", (now, now - 600))  # the sweep and its run were killed ten minutes ago
    assert sweep().code == 0
    (row,) = (row for row in rows() if (row["rate"], row["seed_everything"]) == ("0.1", "2"))
    assert 3100 <= float(row["seconds"]) < 3200
    assert json.loads((folder / "cell.json").read_text())["began"] == 0


def test_a_failed_cell_does_not_stop_the_others_and_is_tried_again(sweep):
    Path("rates.yaml").write_text(PLAN.replace("--base {BASE}", "--fail 1 --base {BASE}"))
    done = sweep("--jobs", 2)
    assert done.code == 1
    assert len(rows()) == 4
    cell = "rates/rate=0.1,seed_everything=1"
    assert f"failed   {cell}: the learning rate is too bold; see runs/{cell}/log.txt" in done.err.splitlines()
    assert done.err.splitlines()[-1] == "error: 2 of 6 runs failed"
    Path("mended").touch()
    assert sweep().code == 0
    assert len(rows()) == 6


def test_changed_words_and_files_are_refused(sweep):
    Path("x.yaml").write_text("lr: 1  # a note\n")
    Path("rates.yaml").write_text(PLAN.replace("--base {BASE}", "-c x.yaml --base {BASE}"))
    assert sweep().code == 0
    folder = "runs/rates/rate=0.01,seed_everything=0"
    fix = f"remove {folder} to run it anew, or give the plan another name"
    assert sweep(base="2").err.strip() == f"error: {folder} ran with --base 1, now the plan has --base 2; {fix}"
    Path("x.yaml").write_text("lr: 1\n")
    assert sweep().code == 0
    Path("x.yaml").write_text("lr: 2\n")
    assert sweep().err.strip() == f"error: {folder} ran with another x.yaml than there is now; {fix}"


def test_a_line_that_was_added_runs_on_finished_cells(sweep):
    assert sweep().code == 0
    Path("rates.yaml").write_text(PLAN.replace("last]", "last, test --ckpt_path best]"))
    assert sweep().code == 0
    assert len(calls("rate=0.1,seed_everything=0")) == 3
    assert rows()[0]["test/top1 (then 2)"] == "0.51"
    Path("rates.yaml").write_text(PLAN)
    assert "ran with test" in sweep().err and "now the plan has nothing" in sweep().err


def test_a_signal_ends_the_runs_and_the_next_call_goes_on(sweep):
    Path("rates.yaml").write_text(PLAN.replace("--base {BASE}", "--wait 1 --base {BASE}"))

    def interrupt() -> None:
        until(Path("ready").exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    before = signal.getsignal(signal.SIGINT)
    done = sweep()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert done.code == 130
    assert "6 runs remain; the same command goes on with them" in done.err
    assert not Path("results/rates.csv").exists()
    first = "rate=0.01,seed_everything=0"
    assert json.loads(Path("runs/rates", first, "cell.json").read_text())["done"] == 0
    shown = sweep("--dry_run").out.splitlines()
    assert shown[2].endswith(" --ckpt_path last")  # the only fit that has begun
    assert not shown[5].endswith(" --ckpt_path last")


def test_what_a_killed_run_left_without_a_checkpoint_gives_way(sweep):
    left = Path("runs/rates/rate=0.01,seed_everything=0/digits/0")
    left.mkdir(parents=True)
    (left / "metrics.csv").write_text("old")
    assert sweep().code == 0  # the stand-in refuses a folder that is there
    assert len(rows()) == 6


def test_a_test_that_leaves_no_metrics_has_failed_and_is_repeated(sweep):
    Path("silent").touch()
    done = sweep()
    assert done.code == 1 and "2 of 6 runs failed" in done.err and "test left no metrics.csv; see" in done.err
    assert len(rows()) == 4
    Path("silent").unlink()
    assert sweep().code == 0
    assert len(rows()) == 6


def test_a_cell_that_another_sweep_ended_meanwhile_is_not_missing(sweep, monkeypatch):
    assert sweep().code == 0
    answers = iter([False] * 6)  # when this sweep began
    finished = module.is_finished
    monkeypatch.setattr(module, "is_finished", lambda *cell: next(answers, None) is None and finished(*cell))
    monkeypatch.setattr(module, "run", lambda cell, *_: run.Outcome(cell, "elsewhere", reason="another sweep"))
    done = sweep()
    assert done.code == 0, done.err
    assert "missing" not in done.err and len(rows()) == 6


def test_a_cell_that_another_sweep_runs_is_skipped(sweep):
    folder = Path("runs/rates/rate=0.1,seed_everything=2")
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"):
        done = sweep()
    assert done.code == 1
    assert "1 of 6 runs are under way elsewhere and missing here" in done.err
    assert f"skipped  runs/rates/{folder.name}  another sweep began it, and it has not ended" in done.out
    assert len(rows()) == 5


def test_a_run_that_outlives_its_killed_sweep_is_left_alone_until_it_ends(sweep):
    Path("rates.yaml").write_text(PLAN.replace("--base {BASE}", "--wait 1 --base {BASE}"))
    code = (
        f"from vit_lightning.commands.sweep import run; run.PYTHON_MODULE = {run.PYTHON_MODULE!r}\n"
        "from vit_lightning.commands.sweep import sweep; sweep(['rates.yaml'], shard='1/6', set=['BASE=1'])"
    )
    killed = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: Path("ready").exists() and Path("ready").read_text())
    killed.kill()
    killed.wait()
    done = sweep("--shard", "1/6")
    assert done.code == 1 and len(calls("rate=0.01,seed_everything=0")) == 1
    assert "skipped  runs/rates/rate=0.01,seed_everything=0  another sweep began it" in done.out
    os.kill(int(Path("ready").read_text()), signal.SIGTERM)
    until(lambda: "skipped" not in sweep("--shard", "1/6").out)
    assert len(rows()) == 1 and calls("rate=0.01,seed_everything=0")[1].endswith("--ckpt_path last")


def test_jobs_share_the_gpus_and_the_cores(sweep, monkeypatch):
    monkeypatch.setattr(children, "visible_gpus", lambda: ["4", "6"])
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert sweep("--jobs", 2).code == 0
    said = {line for log in Path("runs").rglob("log.txt") for line in log.read_text().splitlines() if "CALL" in line}
    assert said == {"CALL 4 4", "CALL 6 4"}


def test_gpus_are_those_that_the_process_may_use(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert children.visible_gpus() == ["3", "1"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\necho 'GPU 0: H100 (UUID: a)'\necho '  MIG 1g (UUID: b)'\necho 'GPU 1: H100 (UUID: c)'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert children.visible_gpus() == ["0", "1"]


WRONG = {
    "jobs": (("--jobs", 0), "--jobs 0: expected 1 or more"),
    "shard": (("--shard", "3/2"), "--shard 3/2: expected i/n with i from 1 to n"),
    "shard text": (("--shard", "a"), "--shard a: expected i/n"),
    "set": (("--set", "A"), "--set A: expected NAME=VALUE"),
    "idle": (("--set", "BSE=1"), "--set BSE: no plan has {BSE} to fill; did you mean BASE?"),
    "plans": (("--runs", "r", "rates.yaml"), "two plans are called rates"),
    "flag": (("--jbs", 2), "there is no flag --jbs; did you mean --jobs?"),
    "folder": (("--results", "rates.yaml"), "--results rates.yaml is a file; give a folder"),
    "runs": (("--runs", "rates.yaml"), "--runs rates.yaml is a file; give a folder"),
}


def test_results_that_could_not_be_written_are_told_before_anything_runs(sweep):
    done = sweep("--results", "/proc")
    assert done.code == 1 and "start" not in done.out
    assert "error: --results /proc/rates.csv cannot be written: " in done.err and "Traceback" not in done.err


def test_a_run_whose_folder_cannot_be_written_fails_alone(sweep):
    cell = Path("runs/rates/rate=0.1,seed_everything=1")
    (cell / "log.txt").mkdir(parents=True)
    done = sweep("--jobs", 2)
    assert done.code == 1 and len(rows()) == 5
    assert (
        f"{cell} cannot be written: Is a directory; name another place" in done.err and "1 of 6 runs failed" in done.err
    )


@pytest.mark.parametrize(("words", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_words_are_told_in_a_sentence(sweep, words, sentence):
    done = sweep(*words)
    assert done.code == 1 and not Path("results").exists()
    assert done.err.startswith(f"error: {sentence}") and done.err.count("\n") == 1


def test_figures_without_matplotlib_are_refused_before_anything_runs(sweep, monkeypatch):
    monkeypatch.setattr("vit_lightning.commands.sweep.figure.find_spec", lambda name: None)
    done = sweep()
    assert done.code == 1 and 'pip install "vit-lightning[figures]"' in done.err
    assert not Path("runs").exists()


def test_a_metric_that_nobody_logged_is_told_after_the_first_run_and_once_the_table_is_written(sweep):
    Path("rates.yaml").write_text(PLAN.replace("y: test/top1", "y: test/top2"))
    done = sweep()
    assert done.code == 1
    said = "figure of plan rates: no run has logged test/top2; did you mean test/top1?"
    assert done.err == f"error: {said}\n"
    assert [line.split()[0] for line in done.out.splitlines()[1:5]] == ["start", "done", "warning", "start"]
    assert done.out.count(f"warning  {said}\n") == 1
    assert len(rows()) == 6


def test_help_shows_a_plan_and_loads_no_torch():
    code = (
        "import sys; from vit_lightning.__main__ import main; sys.argv = ['v', 'sweep', '--help']\n"
        "try: main()\nfinally: print(sorted({'torch', 'lightning', 'matplotlib'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "\n      --seed_everything: [0, 1, 2]\n" in shown and "PLANS ..." in shown
    assert shown.endswith("[]\n")


def test_a_real_run_and_its_test(app, tmp_path):
    words = "--model.net.variant mu/4 --data Digits --data.image_size 8 --trainer.accelerator cpu --data.num_workers 0"
    small = "--data.batch_size 16 --trainer.max_steps 13 --trainer.limit_val_batches 1 --trainer.limit_test_batches 1"
    Path("real.yaml").write_text(
        f"fit: {words} {small}\nthen: [test --ckpt_path last]\nover: {{--seed_everything: [3]}}\n"
    )
    done = app("sweep", "real.yaml")
    assert done.code == 0, done.err + "".join(path.read_text() for path in Path("runs").rglob("log.txt"))
    (row,) = rows("real")
    assert {"test/top1", "val/top1", "best val/top1", "val/loss", "perf/images_per_s", "cost/exaflops"} <= row.keys()
    cost = 13 * 16 * training_flops(NetConfig("mu/4"), 8, 10) / 1e18  # its last 3 steps were not logged
    assert float(row["cost/exaflops"]) == pytest.approx(cost, rel=1e-4)
    assert row["device"] == "cpu" and row["precision"] == "32-true" and row["torch"]
    assert Path("runs/real/seed_everything=3/default/0/checkpoints/last.ckpt").is_file()


def test_what_failed_before_it_had_a_state_may_change(sweep):
    Path("rates.yaml").write_text(PLAN.replace("--base {BASE}", "--fail 1 --base {BASE}"))
    assert sweep().code == 1
    for folder in Path("runs/rates").glob("*=[02]"):
        shutil.rmtree(folder)
    Path("rates.yaml").write_text(PLAN)
    assert sweep().code == 0
    assert len(rows()) == 6


@pytest.mark.parametrize(
    ("states", "received", "code", "said"),
    [
        (["finished", "finished"], None, None, ""),
        (["finished", "failed"], None, 1, "failed   rates/s=1: why\nerror: 1 of 2 runs failed\n"),
        (["stopped", "finished"], signal.SIGTERM, 143, "1 run remains; the same command goes on with them\n"),
        (
            ["stopped", "failed"],
            signal.SIGINT,
            130,
            "failed   rates/s=1: why\nerror: 1 of 2 runs failed\n1 run remains",
        ),
        (["finished", "elsewhere"], None, 1, "1 of 2 runs are under way elsewhere and missing here"),
        (["finished"], signal.SIGTERM, 143, ""),
    ],
)
def test_the_status_says_what_became_of_the_runs(capsys, tmp_path, states, received, code, said):
    outcomes = [
        run.Outcome(Cell("rates", {"s": str(number)}, [["fit"]]), state, reason="why")
        for number, state in enumerate(states)
    ]
    if code is None:
        module._exit(outcomes, received, tmp_path, len(outcomes))
    else:
        with pytest.raises(SystemExit) as ended:
            module._exit(outcomes, received, tmp_path, len(outcomes))
        assert ended.value.code == code
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("text", "part"), [("1/1", (1, 1)), ("2/10", (2, 10)), ("10/10", (10, 10)), ("11/10", None), ("0/2", None)]
)
def test_a_shard_is_one_of_its_parts(text, part):
    if part:
        assert shard_of(text) == part
    else:
        with pytest.raises(InputError, match=f"--shard {text}: expected i/n with i from 1 to n"):
            shard_of(text)


def test_what_fills_a_plan_may_hold_any_sign():
    assert module._given(["A=1", "B=x=y", "C="]) == {"A": "1", "B": "x=y", "C": ""}
    for word in ("=1", "A", ""):
        with pytest.raises(InputError, match=f"--set {word}: expected NAME=VALUE"):
            module._given([word])
