"""What a cell's run depends on beside its words: the files that they name."""

import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.commands.sweep import run
from vit_lightning.commands.sweep.plan import Cell
from vit_lightning.commands.sweep.run import Record, check_unchanged
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "x.yaml"],
        ["--config", "x.yaml"],
        ["--config=x.yaml"],
        ["--trainer", "x.yaml"],
        ["--data=x.yaml"],
        ["--config", "x"],
    ],
)
def test_a_file_that_changed_is_named_however_it_is_given(tmp_path, monkeypatch, words):
    name = words[-1].rpartition("=")[2]
    monkeypatch.chdir(tmp_path)
    cell = Cell("rates", {"rate": "0.1"}, [["fit", *words, "--data.root", "photos.yaml"]])
    (tmp_path / "photos.yaml").write_text("- no config, but data\n")
    (tmp_path / name).write_text("lr: 1  # a note\n")
    (tmp_path / "runs" / cell.place).mkdir(parents=True)
    Record(cell.lines, done=1, files=run._digests(cell)).write(tmp_path / "runs" / cell.place)
    (tmp_path / name).write_text("lr:   1\n")
    assert check_unchanged(cell, tmp_path / "runs").done == 1
    (tmp_path / name).write_text("lr: 2\n")
    with pytest.raises(InputError, match=f"ran with another {name} than there is now; remove"):
        check_unchanged(cell, tmp_path / "runs")


def test_a_fit_that_was_asked_to_end_is_not_done_though_it_ended_well(tmp_path):
    """As by scancel of its process alone: it saves its state, and ends with status 0."""
    cell, said = Cell("rates", {"rate": "0.1"}, [["fit", "--rate", "0.1"]]), ["stopped by a signal at optimiser step 7"]

    def call(words: list[str], log: Path, lock: int) -> int:
        with log.open("a") as output:
            print("\n".join(said), file=output)
        return 0

    assert run.run(cell, tmp_path, call).state == "stopped"
    assert not run.is_finished(cell, run.read_record(tmp_path / cell.place))
    said[:] = ["run      runs/0"]
    assert run.run(cell, tmp_path, call).state == "finished"
    assert run.is_finished(cell, run.read_record(tmp_path / cell.place))


def a_cell(*lines: str) -> Cell:
    return Cell("rates", {"rate": "0.1"}, [line.split() for line in lines])


def test_each_process_has_its_words(tmp_path):
    cell = a_cell("fit --rate 0.1", "test --rate 0.1 --ckpt_path best", "predict --ckpt_path last")
    folder = tmp_path / cell.place
    root = ["--trainer.default_root_dir", str(folder)]
    assert run.command(cell, 0, tmp_path)[3:] == ["fit", "--rate", "0.1", *root]
    log = ["--trainer.logger", "CSVLogger", "--trainer.logger.save_dir", str(folder), "--trainer.logger.name"]
    begun = ["test", "--rate", "0.1", "--ckpt_path", "best", *root, *log, "then1"]
    assert run.command(cell, 1, tmp_path)[3:] == begun
    assert run.command(cell, 2, tmp_path)[3:] == ["predict", "--ckpt_path", "last", *root, *log, "then2"]
    state = folder / "digits" / "0" / "checkpoints" / "last.ckpt"
    state.parent.mkdir(parents=True)
    zipfile.ZipFile(state, "w").close()
    assert run.command(cell, 0, tmp_path)[3:] == ["fit", "--rate", "0.1", *root, "--ckpt_path", "last"]
    assert run.command(cell, 1, tmp_path)[3:] == begun  # the scoring's checkpoint is its own


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        ("a\nerror: first\nerror: second\n  \nlast words\n", 1, "second"),
        ("a\n  last words  \n\n", 1, "last words"),
        ("", 3, "exit status 3"),
        ("error: first\n", -9, "ended by signal 9"),
    ],
)
def test_the_last_words_are_the_error(output, code, said):
    assert run.last_words(output, code) == said


@pytest.mark.parametrize(
    ("old", "new", "was", "now"),
    [
        ("fit --a 1 --b 2", "fit --a 1 --b 3", "--b 2", "--b 3"),
        ("fit --a 1 --b 2", "fit --a 1", "--b 2", "nothing"),
        ("fit --a 1 --b 2 --c 3", "fit --a 1 --d --c 3", "--b 2", "--d"),
        ("fit --a 1 --b 2 --c 3", "fit --a 5 --b 2 --c 3", "--a 1", "--a 5"),
        ("fit --a 1 --b 2 --c 3", "fit --b 2 --c 3", "--a 1", "nothing"),
    ],
)
def test_what_differs_is_shown_with_its_flag(old, new, was, now):
    assert run._differing(old.split(), new.split()) == was
    assert run._differing(new.split(), old.split()) == now


def test_flags_are_told_apart_by_those_that_decide_with_their_values():
    typed = "fit -c x.yaml --config=y.yaml --data Digits --data.root z --model=Own --lr 1 --lr=2"
    assert run._names(typed.split()) == (
        *("fit", "-c", "x.yaml", "--config=y.yaml", "--data", "Digits", "--data.root", "--model=Own", "--lr", "--lr"),
    )
    assert run._without_checkpoint(["test", "--a", "1", "--ckpt_path", "last", "--b"]) == ["test", "--a", "1", "--b"]
    assert run._without_checkpoint(["test", "--ckpt_path=last", "--b"]) == ["test", "--b"]


def test_the_files_of_a_cell_are_those_of_its_fit_once_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abcde":
        Path(f"{name}.yaml").write_text(f"lr: {name}\n")
    cell = a_cell(
        "fit -c a.yaml --config=b.yaml -c a.yaml --model c.yml --model.weights d.yaml -c gone.yaml", "test -c e.yaml"
    )
    Path("c.yml").write_text("lr: 1\n")
    found = run._digests(cell)
    assert list(found) == ["a.yaml", "b.yaml", "c.yml"]
    assert len(set(found.values())) == 3
    Path("a.yaml").write_text("lr: b\nwd: 1\n")
    Path("b.yaml").write_text("wd: 1\nlr: b\n")
    assert len(set(run._digests(cell).values())) == 2  # an order of keys says nothing


def test_a_stopped_cell_goes_on_where_it_was_and_adds_up_its_time(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])
    cell, done = a_cell("fit", "test --ckpt_path last", "predict --ckpt_path last"), []
    answers = iter([0, None, 2, 0, 0])

    def call(words: list[str], log: Path, lock: int) -> int | None:
        done.append(words[3])
        now[0] += 10
        with log.open("a") as output:
            print("error: of an earlier call" if len(done) == 1 else "error: too bold", file=output)
        answer = next(answers)
        if words[3] == "test" and answer == 0:
            (tmp_path / cell.place / "then1" / "version_0").mkdir(parents=True)
            (tmp_path / cell.place / "then1" / "version_0" / "metrics.csv").touch()
        return answer

    outcomes = [run.run(cell, tmp_path, call) for _ in range(3)]
    assert done == ["fit", "test", "test", "test", "predict"]
    assert [outcome.state for outcome in outcomes] == ["stopped", "failed", "finished"]
    assert [outcome.seconds for outcome in outcomes] == [20.0, 30.0, 50.0]
    assert outcomes[1].reason == f"too bold; see {tmp_path / cell.place / 'log.txt'}"
    record = run.read_record(tmp_path / cell.place)
    assert (record.done, record.began, record.lines) == (3, 0.0, cell.lines)


def test_a_test_that_begins_again_finds_no_log_of_an_earlier_try(tmp_path):
    cell = a_cell("fit", "test", "test")
    for name in ("then1/version_0", "then2/version_0", "digits/0"):
        (tmp_path / name).mkdir(parents=True)
    run._remove_earlier_try(tmp_path, 2)
    assert [(tmp_path / name).exists() for name in ("then1", "then2", "digits/0")] == [True, False, True]
    run._remove_earlier_try(tmp_path, 0)
    assert [(tmp_path / name).exists() for name in ("then1", "digits/0", "digits")] == [True, False, True]
    assert not run._has_scored(cell, 1, tmp_path)
    (tmp_path / "then1" / "version_0" / "metrics.csv").touch()
    assert run._has_scored(cell, 1, tmp_path) and not run._has_scored(cell, 2, tmp_path)


def test_a_cell_that_lost_nothing_may_change_and_one_with_a_state_may_not(tmp_path):
    old, new = a_cell("fit --rate 0.1", "test"), a_cell("fit --rate 0.2", "test")
    folder = tmp_path / old.place
    folder.mkdir(parents=True)
    Record(old.lines[:1], done=0, seconds=7.0).write(folder)
    assert check_unchanged(new, tmp_path) == Record(seconds=7.0)
    state = folder / "digits" / "0" / "checkpoints" / "last.ckpt"
    state.parent.mkdir(parents=True)
    zipfile.ZipFile(state, "w").close()
    assert check_unchanged(old, tmp_path).lines == old.lines[:1]  # a line that has not begun may be any
    with pytest.raises(InputError, match=r"ran with --rate 0.1, now the plan has --rate 0.2; remove"):
        check_unchanged(new, tmp_path)


def test_of_the_fits_every_value_is_parsed_and_of_what_follows_every_combination_of_flags(monkeypatch):
    parsed: list[list[str]] = []

    def answer(words: list[str], **settings: object) -> SimpleNamespace:
        parsed.append(words[len(run.PYTHON_MODULE) :])
        return SimpleNamespace(returncode=int("bad" in words), stderr="usage\nerror: no such value bad\n")

    monkeypatch.setattr(run.subprocess, "run", answer)
    cells = [
        Cell("p", {"rate": rate, "seed": seed}, [
            ["fit", "--rate", rate, "--seed", seed], ["test", "--rate", rate, "--seed", seed, "--ckpt_path", "last"]])
        for rate in ("1", "2") for seed in ("7", "8")
    ]  # fmt: skip
    told: list[str] = []
    run.check_words(cells, told.append)
    fits = [("1", "7"), ("1", "8"), ("2", "7")]  # the pair of 2 and 8 brings no word that is new
    assert sorted(parsed) == [
        *(["fit", "--rate", rate, "--seed", seed, "--print_config"] for rate, seed in fits),
        ["test", "--rate", "1", "--seed", "7", "--print_config"],
    ]
    assert told == []  # within seconds
    wrong = Cell("p", {"rate": "bad"}, [["fit", "--rate", "bad"]])
    with pytest.raises(InputError, match=r"^p/rate=bad: no such value bad$"):
        run.check_words([*cells, wrong], told.append)


@pytest.mark.parametrize(("passed", "lines"), [(4.0, 0), (6.0, 3)])
def test_how_far_it_is_is_said_every_few_seconds(monkeypatch, passed, lines):
    now = [0.0]

    def clock() -> float:
        now[0] += passed
        return now[0]

    monkeypatch.setattr(run.time, "monotonic", clock)
    monkeypatch.setattr(run.subprocess, "run", lambda words, **settings: SimpleNamespace(returncode=0, stderr=""))
    told: list[str] = []
    run.check_words([Cell("p", {"s": str(n)}, [["fit", "--s", str(n)]]) for n in range(3)], told.append)
    assert len(told) >= lines and (lines == 0 or told[0] == "checked 1 of 3 command lines")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "rates").write_text("a file where a folder must be")
    outcome = run.run(a_cell("fit"), tmp_path, lambda *words: pytest.fail("run"))
    assert outcome.state == "failed" and outcome.reason.startswith(f"{tmp_path / 'rates'}")


@pytest.mark.parametrize(
    ("verb", "state", "done"), [("test", "failed", 1), ("validate", "failed", 1), ("predict", "finished", 2)]
)
def test_what_scores_without_a_log_has_failed(tmp_path, verb, state, done):
    cell = a_cell("fit", verb)
    outcome = run.run(cell, tmp_path, lambda words, log, lock: 0)
    assert outcome.state == state and run.read_record(tmp_path / cell.place).done == done
    assert outcome.reason == (f"{verb} left no metrics.csv; see {tmp_path / cell.place / 'log.txt'}" * (done == 1))


def test_each_command_line_is_checked_once_by_the_program_itself(monkeypatch):
    called: list[list[str]] = []
    answer = SimpleNamespace(returncode=0, stderr="")
    monkeypatch.setattr(run.subprocess, "run", lambda words, **settings: called.append(words) or answer)
    run.check_words([a_cell("fit --a 1", "test --a 1 --ckpt_path=best --b")] * 2, print)
    assert sorted(called) == [
        [*run.PYTHON_MODULE, "fit", "--a", "1", "--print_config"],
        [*run.PYTHON_MODULE, "test", "--a", "1", "--b", "--print_config"],
    ]
    assert run.PYTHON_MODULE[1:] == ("-m", "vit_lightning")
