"""The SLURM job of a process: its name, its second start, and its way back into the queue."""

import sys

import pytest

from vit_lightning.errors import InputError
from vit_lightning.runs.slurm import requeue, slurm_job, was_requeued

NAMES = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT")


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "42"}, "42"),
        ({"SLURM_JOB_ID": "45", "SLURM_ARRAY_JOB_ID": "42", "SLURM_ARRAY_TASK_ID": "3"}, "42_3"),
    ],
)
def test_a_task_of_an_array_is_called_as_slurm_calls_it(monkeypatch, variables, name):
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    assert slurm_job() == name


@pytest.mark.parametrize(("count", "again"), [(None, False), ("", False), ("0", False), ("1", True), ("12", True)])
def test_a_job_runs_again_once_slurm_counts_a_restart(monkeypatch, count, again):
    if count is not None:
        monkeypatch.setenv("SLURM_RESTART_COUNT", count)
    assert was_requeued() is again


def test_the_command_gets_the_job_s_name_as_its_last_word(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    code = f"import sys; open({str(tmp_path / 'told')!r}, 'w').write(' '.join(sys.argv[1:]))"
    requeue([sys.executable, "-c", code, "requeue"])
    assert (tmp_path / "told").read_text() == "requeue 42"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(3)", "exit 3"),
        ("import sys; sys.stderr.write(' no such job\\n'); sys.exit(1)", "no such job"),
    ],
)
def test_what_slurm_refuses_is_a_sentence_and_the_state_is_safe(monkeypatch, code, reason):
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    with pytest.raises(
        InputError, match=rf"^the state is saved, but SLURM does not requeue job 42 \({reason}\); submit"
    ):
        requeue([sys.executable, "-c", code])


def test_what_a_command_says_beside_its_success_is_no_refusal():
    requeue([sys.executable, "-c", "import sys; sys.stderr.write('a notice')"])


def test_a_machine_without_slurm_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"does not requeue job  \(.*No such file.*scontrol"):
        requeue()
