"""Run folders: numbering, finding checkpoints again, atomic files."""

import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vit_lightning.errors import InputError
from vit_lightning.runs import folders


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID", folders.RUN_ENV):
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
    with pytest.warns(UserWarning, match="missing or damaged"):
        assert folders.newest_checkpoint(tmp_path, "x", "last") == previous


def test_configs_come_in_the_order_of_the_run_s_parts(tmp_path):
    """Of a run with ten parts and more: the last one is what a resume compares with."""
    parts = ["config.yaml", *(f"config.resume-{number}.yaml" for number in range(1, 12))]
    for name in sorted(parts):
        (tmp_path / name).touch()
    assert [path.name for path in folders.configs(tmp_path)] == parts


def test_a_state_that_a_kill_left_without_its_name_wins_over_the_one_before(tmp_path):
    previous, new = (checkpoint(tmp_path / "x" / "0", name) for name in ("previous.ckpt", "new.ckpt"))
    with pytest.warns(UserWarning, match="going on from .*new.ckpt"):
        assert folders.newest_checkpoint(tmp_path, "x", "last") == new
    new.write_bytes(new.read_bytes()[:500])
    with pytest.warns(UserWarning, match="going on from .*previous.ckpt"):
        assert folders.newest_checkpoint(tmp_path, "x", "last") == previous


def test_the_folder_of_a_checkpoint(tmp_path):
    path = checkpoint(tmp_path / "x" / "0", "best.ckpt")
    assert folders.folder_of(path) == tmp_path / "x" / "0"
    assert folders.folder_of(tmp_path / "elsewhere.ckpt") is None


def test_the_commit_is_that_of_the_code_wherever_a_run_starts(tmp_path, monkeypatch):
    clone = Path(folders.__file__).parent
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True)
    if head.returncode:
        pytest.skip("the code lies in no clone")
    monkeypatch.chdir(tmp_path)
    assert folders.environment("cpu")["git_commit"] == head.stdout.strip()
