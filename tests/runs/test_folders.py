"""Run folders: numbering, finding checkpoints again, atomic files."""

import json
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vit_lightning.errors import InputError
from vit_lightning.runs import folders


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    slurm = ("SLURM_PROCID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT")
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", *slurm, folders.RUN_ENV):
        monkeypatch.delenv(name, raising=False)


def checkpoint(folder: Path, name: str, whole: bool = True) -> Path:
    path = folder / folders.CHECKPOINTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "x" * 1000)
    if not whole:
        path.write_bytes(path.read_bytes()[:500])
    return path


def test_runs_that_start_together_get_folders_of_their_own(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda _: folders.claim(tmp_path, "x"), range(16)))
    assert sorted(int(folder.name) for folder in claimed) == list(range(16))


def test_numbers_go_on_after_the_largest(tmp_path):
    (tmp_path / "x" / "41").mkdir(parents=True)
    (tmp_path / "x" / "notes").mkdir()
    assert folders.claim(tmp_path, "x").name == "42"


def test_a_launched_rank_takes_rank_zeros_folder(tmp_path, monkeypatch):
    first = folders.claim(tmp_path, "x")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert folders.claim(tmp_path, "x") == first
    assert len(list((tmp_path / "x").iterdir())) == 1


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write run folder"):
        folders.claim(tmp_path / "file", "x")


def test_what_a_refused_run_made_goes_and_what_stood_stays(tmp_path):
    root = tmp_path / "a" / "b"
    stood = folders.standing(root)
    folders.discard(folders.claim(root, "x"), stood)
    assert stood == tmp_path and not list(tmp_path.iterdir())
    root.mkdir(parents=True)
    folders.discard(folders.claim(root, "x"), folders.standing(root))
    assert root.is_dir() and not list(root.iterdir())
    first, second = folders.claim(root, "x"), folders.claim(root, "x")
    folders.discard(second, tmp_path)
    assert first.is_dir() and not second.exists()


@pytest.mark.parametrize("config", ["config.yaml", "config.resume-1.yaml"])
def test_a_run_that_had_its_first_batch_is_never_removed(tmp_path, config):
    folder = folders.claim(tmp_path, "x")
    (folder / config).touch()
    folders.discard(folder, tmp_path)
    assert (folder / config).exists()
    (folder / config).unlink()
    folders.discard(folder, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_newest_run_is_found_and_no_other_taken_in_its_place(tmp_path):
    for number in (2, 9, 10):
        checkpoint(tmp_path / "x" / str(number), "last.ckpt")
    assert folders.newest_checkpoint(tmp_path, "x", "last").parts[-3] == "10"
    (tmp_path / "x" / "11").mkdir()
    with pytest.raises(InputError, match=r"11, has no whole last\.ckpt.*give --ckpt_path \S*10/checkpoints/last\.ckpt"):
        folders.newest_checkpoint(tmp_path, "x", "last")


def test_a_cut_last_gives_way_to_previous(tmp_path):
    checkpoint(tmp_path / "x" / "0", "last.ckpt", whole=False)
    with pytest.raises(InputError, match=r"no whole last\.ckpt.*start anew"):
        folders.newest_checkpoint(tmp_path, "x", "last")
    previous = checkpoint(tmp_path / "x" / "0", "previous.ckpt")
    with pytest.warns(UserWarning, match=r"last\.ckpt is damaged: \S*previous\.ckpt is taken$"):
        assert folders.newest_checkpoint(tmp_path, "x", "last") == previous


def test_where_last_and_previous_are_damaged_a_whole_best_is_named(tmp_path):
    """A run that saved nothing yet has no damage to tell."""
    run = tmp_path / "x" / "0"
    run.mkdir(parents=True)
    (run / "config.yaml").touch()
    with pytest.raises(InputError, match=r"no whole last\.ckpt yet; begin anew with fit -c \S*/0/config\.yaml$"):
        folders.trained_checkpoint(run, "last")
    for name in ("last.ckpt", "previous.ckpt"):
        checkpoint(run, name, whole=False)
    with pytest.raises(
        InputError, match=r"has no whole last\.ckpt: last\.ckpt and previous\.ckpt are damaged; begin anew with fit"
    ):
        folders.trained_checkpoint(run, "last")
    checkpoint(run, "best.ckpt")
    left = (
        r"no whole last\.ckpt: last\.ckpt and previous\.ckpt are damaged; give --ckpt_path best to take \S*/best\.ckpt"
    )
    with pytest.raises(InputError, match=left):
        folders.trained_checkpoint(run, "last")
    with pytest.raises(InputError, match=left + "; start anew"):
        folders.newest_checkpoint(tmp_path, "x", "last")
    checkpoint(run, "best.ckpt", whole=False)
    with pytest.raises(InputError, match=r"last\.ckpt and previous\.ckpt and best\.ckpt are damaged; begin"):
        folders.trained_checkpoint(run)


def test_configs_come_in_the_order_of_the_run_s_parts(tmp_path):
    """Of a run with ten parts and more: the last one is what a resume compares with."""
    parts = ["config.yaml", *(f"config.resume-{number}.yaml" for number in range(1, 12))]
    for name in sorted(parts):
        (tmp_path / name).touch()
    assert [path.name for path in folders.configs(tmp_path)] == parts


def test_a_state_that_a_kill_left_without_its_name_wins_over_the_one_before(tmp_path):
    previous, new = (checkpoint(tmp_path / "x" / "0", name) for name in ("previous.ckpt", "new.ckpt"))
    with pytest.warns(UserWarning, match=r"last\.ckpt is missing: \S*new\.ckpt is taken$"):
        assert folders.newest_checkpoint(tmp_path, "x", "last") == new
    new.write_bytes(new.read_bytes()[:500])
    with pytest.warns(UserWarning, match=r"last\.ckpt is missing: \S*previous\.ckpt is taken$"):
        assert folders.newest_checkpoint(tmp_path, "x", "last") == previous


def test_the_folder_of_a_checkpoint(tmp_path):
    path = checkpoint(tmp_path / "x" / "0", "best.ckpt")
    assert folders.folder_of(path) == tmp_path / "x" / "0"
    assert folders.folder_of(tmp_path / "elsewhere.ckpt") is None


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, 0),
        ({"RANK": "3", "SLURM_PROCID": "5", "LOCAL_RANK": "1"}, 3),
        ({"SLURM_PROCID": "5", "LOCAL_RANK": "1"}, 5),
        ({"LOCAL_RANK": "1"}, 1),
        ({"NODE_RANK": "1"}, 1),
        ({"LOCAL_RANK": "1", "NODE_RANK": "1"}, 2),
        ({"LOCAL_RANK": "", "NODE_RANK": "0"}, 0),
        ({"RANK": "0", "NODE_RANK": "1"}, 0),
    ],
)
def test_a_rank_is_that_over_all_hosts(tmp_path, monkeypatch, environment, rank):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert folders.rank() == rank
    assert folders.claim(tmp_path, "x") == (tmp_path / "x" if rank else (tmp_path / "x" / "0").resolve())
    assert (tmp_path / "x").exists() == (rank == 0)
    claimed = tmp_path / "x" / "1"
    claimed.mkdir(parents=True)
    folders.discard(claimed, tmp_path)  # which rank zero alone does
    assert claimed.exists() == (rank > 0)


def run_of(root: Path, number: int, job: str | None, command: list[str]) -> Path:
    state = checkpoint(root / "x" / str(number), "last.ckpt")
    facts = {"slurm_job": job, "command": command}
    (root / "x" / str(number) / "env.json").write_text(json.dumps(facts))
    return state


def test_a_requeued_job_finds_the_newest_run_of_its_own_command(tmp_path, monkeypatch):
    words = ["python", "fit", "--a", "1"]
    monkeypatch.setattr("sys.argv", ["elsewhere/python", *words[1:]])
    own = {number: run_of(tmp_path, number, "7", words) for number in (1, 10, 9)}
    run_of(tmp_path, 11, "8", words)
    run_of(tmp_path, 12, "7", [*words, "--b"])
    (tmp_path / "x" / "13").mkdir()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert folders.interrupted(tmp_path, "x") is None
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert folders.interrupted(tmp_path, "x") == own[10]
    own[10].unlink()
    assert folders.interrupted(tmp_path, "x") is None  # no state yet: not that of a run before
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    assert folders.interrupted(tmp_path, "x") is None


def test_the_best_has_no_second_and_a_number_is_no_text(tmp_path):
    for number in (9, 10):
        checkpoint(tmp_path / "x" / str(number), "last.ckpt")
    checkpoint(tmp_path / "x" / "10", "previous.ckpt")
    with pytest.raises(InputError, match=r"best: \S*10 has no whole best.ckpt; give --ckpt_path last to take \S*t; "):
        folders.newest_checkpoint(tmp_path, "x", "best")
    best = checkpoint(tmp_path / "x" / "9", "best.ckpt")
    with pytest.raises(InputError, match=r"newest run, \S*10, has no whole best.ckpt; .* --ckpt_path \S*9/checkpoints"):
        folders.newest_checkpoint(tmp_path, "x", "best")
    newest = checkpoint(tmp_path / "x" / "10", "best.ckpt")
    assert folders.newest_checkpoint(tmp_path, "x", "best") == newest != best
    with pytest.raises(InputError, match=r"no run below \S*y has a last.ckpt; name the run, as in `predict \S*x/\d+`"):
        folders.newest_checkpoint(tmp_path, "y", "last", "predict")
    with pytest.raises(InputError, match=r"no run below \S*y has a last.ckpt; give the same -c files"):
        folders.newest_checkpoint(tmp_path / "empty", "y", "last")


def test_what_stands_for_a_net_is_a_run_s_best_checkpoint_or_what_was_named(tmp_path):
    (tmp_path / "x/0/checkpoints").mkdir(parents=True)
    with pytest.raises(InputError, match=r"x/0 has no whole best.ckpt or last.ckpt yet"):
        folders.checkpoint_behind(str(tmp_path / "x/0"))
    best = checkpoint(tmp_path / "x" / "0", "best.ckpt")
    assert folders.checkpoint_behind(str(tmp_path / "x/0")) == str(best)
    (tmp_path / "empty").mkdir()
    for source in (str(best), "gone.npz", "hf://owner/repo", str(tmp_path / "empty")):
        assert folders.checkpoint_behind(source) == source


def test_a_folder_of_runs_is_no_net_and_the_newest_run_is_named(tmp_path):
    for age, name in enumerate(("x/9", "x/10", "y/0")):
        checkpoint(tmp_path / name, "best.ckpt")
        os.utime(tmp_path / name, (age, age))
    with pytest.raises(InputError, match=r"x: the folder of an experiment, whose newest run is \S*x/10; give a run"):
        folders.checkpoint_behind(str(tmp_path / "x"))
    with pytest.raises(InputError, match=r": a folder of experiments, whose newest run is \S*y/0; give a run folder"):
        folders.checkpoint_behind(str(tmp_path))
    assert "whose newest run is" in folders.not_a_run(tmp_path)
    (tmp_path / "model.safetensors").touch()
    assert folders.checkpoint_behind(str(tmp_path)) == str(tmp_path)


def test_the_newest_runs_come_first(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(("c/1", "a/0", "b/9")):
        path = checkpoint(Path("runs", name), "best.ckpt")
        os.utime(path, (1_000 - age, 1_000 - age))
    with pytest.raises(InputError, match=r"as in `test runs/c/1` \(the newest: runs/c/1, runs/a/0, runs/b/9\)"):
        folders.newest_checkpoint(Path("runs"), "default", "best")


@pytest.mark.parametrize("name", [None, "best"])
@pytest.mark.parametrize(("kind", "make"), [("FIFO", os.mkfifo), ("folder", os.mkdir)])
def test_a_best_that_is_no_file_is_called_what_it_is(tmp_path, name, kind, make):
    (tmp_path / "checkpoints").mkdir()
    make(tmp_path / "checkpoints/best.ckpt")
    with pytest.raises(InputError, match=f"best.ckpt is a {kind}, not a checkpoint; remove it"):
        folders.trained_checkpoint(tmp_path, name)


def test_what_is_scored_unasked_is_the_best_and_else_the_last_with_a_warning(tmp_path):
    with pytest.raises(InputError, match=r"has no whole best\.ckpt or last\.ckpt yet"):
        folders.trained_checkpoint(tmp_path)
    last = checkpoint(tmp_path, "last.ckpt")
    with pytest.warns(UserWarning, match="has no best.ckpt, which only validation makes: .*last.ckpt is taken"):
        assert folders.trained_checkpoint(tmp_path) == last
    with pytest.raises(InputError, match=r"has no whole best.ckpt yet; give --ckpt_path last to take \S*last.ckpt"):
        folders.trained_checkpoint(tmp_path, "best")
    best = checkpoint(tmp_path, "best.ckpt")
    assert folders.trained_checkpoint(tmp_path) == folders.trained_checkpoint(tmp_path, "best") == best
    assert folders.trained_checkpoint(tmp_path, "last") == last
    checkpoint(tmp_path, "best.ckpt", whole=False)
    with pytest.raises(InputError, match=r"best.ckpt is damaged: .* give last.ckpt beside it in its place"):
        folders.trained_checkpoint(tmp_path)


def test_a_cell_of_a_sweep_names_the_run_in_it(tmp_path):
    """runs/PLAN/CELL holds the experiment's folder with its runs."""
    for number in (0, 1):
        run = tmp_path / "lr=0.1" / "digits" / str(number)
        (run / "checkpoints").mkdir(parents=True)
        os.utime(run, (100 - number, 100 - number))
    assert folders.not_a_run(tmp_path / "lr=0.1") == (
        f"a folder of experiments, whose newest run is {tmp_path}/lr=0.1/digits/0; give a run folder, such as that one"
    )
