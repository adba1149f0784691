"""Under a launcher the world is the launcher's, or the run is refused."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from vit_lightning.cli.launched import _count, launched, settings
from vit_lightning.errors import InputError

TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
SLURM = {"SLURM_NTASKS": "16", "SLURM_NNODES": "2", "SLURM_PROCID": "0", "SLURM_JOB_NAME": "train"}
PLAIN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environment", "world"),
    [
        ({}, {}),
        (TORCHRUN, {"num_nodes": 2, "devices": 2}),
        (SLURM, {"num_nodes": 2, "devices": 8}),
        (SLURM | TORCHRUN, {"num_nodes": 2, "devices": 2}),
        (PLAIN, {"num_nodes": 1, "devices": 2}),
        (SLURM | {"SLURM_JOB_NAME": "interactive"}, {}),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, {}),  # Lightning's own launcher
    ],
)
@pytest.mark.parametrize("devices", [None, "auto", -1, "-1"])
def test_devices_that_are_not_given_are_those_launched(environment, world, devices):
    assert settings("fit", {"devices": devices, "num_nodes": 1}, environment) == world


@pytest.mark.parametrize("devices", [2, "2", [0, 1], "0,1"])
def test_devices_that_fit_the_launcher_stay(devices):
    assert settings("fit", {"devices": devices}, TORCHRUN) == {"num_nodes": 2}


@pytest.mark.parametrize("devices", [1, 4, "1", [0], "0,1,2"])
def test_another_number_of_devices_is_refused(devices):
    with pytest.raises(InputError, match=r"^--trainer.devices .*: torchrun started 2 processes on each of 2 hosts"):
        settings("fit", {"devices": devices}, TORCHRUN)


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match=r"^--trainer.num_nodes 3: SLURM started 8 processes on each of 2 hosts"):
        settings("fit", {"num_nodes": 3}, SLURM)
    with pytest.raises(InputError, match=r"^prepare runs as one process, but torchrun started 2 processes"):
        settings("prepare", {}, PLAIN)
    with pytest.raises(InputError, match=r"^mpirun started several processes"):
        launched({"OMPI_COMM_WORLD_SIZE": "2"})


def test_torchrun_alone_makes_one_run_of_two_processes(tmp_path):
    words = "fit --data Synthetic --data.train_size 64 --data.eval_size 8 --data.batch_size 8 --data.num_workers 0"
    words += " --model.net.variant mu/8 --trainer.accelerator cpu"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "-m", "vit_lightning", *words.split()],
        **{"cwd": tmp_path, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
        start_new_session=True,
    )
    try:
        said = process.communicate(timeout=1800)[0]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    assert "batch    8 per device x 2 devices x 1 = 16" in said
    assert [path.name for path in (tmp_path / "runs/default").iterdir()] == ["0"]
    assert said.count("epoch 1/1 done") == 1


@pytest.mark.parametrize(
    ("environment", "world"),
    [
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "2"}, ("torchrun", 3, 2)),
        ({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "6"}, ("torchrun", 1, 6)),
        ({"RANK": "0", "WORLD_SIZE": "6"}, None),
        ({"RANK": "0", "LOCAL_RANK": "0"}, None),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "6"}, None),
        ({"SLURM_NTASKS": "6", "SLURM_JOB_NUM_NODES": "3"}, ("SLURM", 3, 2)),
        ({"SLURM_NTASKS": "6", "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "3"}, ("SLURM", 2, 3)),
        ({"SLURM_NTASKS": "6"}, ("SLURM", 1, 6)),
        ({"SLURM_NTASKS": "1", "SLURM_NNODES": "2"}, ("SLURM", 2, 1)),
        ({"SLURM_NNODES": "2"}, None),
        ({"SLURM_NTASKS": "6", "SLURM_JOB_NAME": "bash"}, None),
        ({"OMPI_COMM_WORLD_SIZE": "1", "PMI_SIZE": "1"}, None),
    ],
)
def test_each_launcher_tells_its_world(environment, world):
    assert launched(environment) == world


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"])
def test_every_mpirun_is_known(name):
    with pytest.raises(InputError, match="mpirun started several processes"):
        launched({name: "2"})


@pytest.mark.parametrize("verb", ["prepare", "doctor"])
def test_verbs_of_one_process_refuse_several(verb):
    alone = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "1"}
    assert settings(verb, {}, alone) == {"num_nodes": 1, "devices": 1}
    for environment, world in ((TORCHRUN, "2 processes on each of 2 hosts"), (PLAIN, "2 processes")):
        with pytest.raises(InputError, match=f"^{verb} runs as one process, but torchrun started {world}; start"):
            settings(verb, {}, environment)
    with pytest.raises(InputError, match="SLURM started 1 process on each of 2 hosts; start it alone"):
        settings(verb, {}, {"SLURM_NTASKS": "2", "SLURM_NNODES": "2"})


@pytest.mark.parametrize("hosts", [None, 1, 2])
def test_hosts_that_fit_the_launcher_are_its_own(hosts):
    assert settings("fit", {"num_nodes": hosts}, SLURM) == {"num_nodes": 2, "devices": 8}


@pytest.mark.parametrize(("devices", "count"), [("3", 3), (" 3 ", 3), ("0,2,5", 3), ([4, 5], 2), (3, 3), ("cuda:1", 1)])
def test_devices_are_counted_as_lightning_counts_them(devices, count):
    assert _count(devices) == count


@pytest.mark.parametrize(("devices", "count"), [("3,", 1), ("0,", 1), (" 12 ,", 1), ("3,1,", 2), ([3], 1)])
def test_a_comma_makes_a_list_of_numbers(devices, count):
    assert _count(devices) == count
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(count)}
    assert settings("fit", {"devices": devices}, alone) == {"num_nodes": 1}
