"""Processes that a launcher has started: the run's world is theirs, or the run is refused."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from vit_lightning.errors import InputError

SINGLE = ("prepare", "doctor")
"""Verbs of one process."""
UNSET = (None, "auto", -1, "-1")
UNSUPPORTED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")
"""Variables with which mpirun says how many processes it has started."""


class World(NamedTuple):
    """What a launcher has started."""

    launcher: str
    hosts: int
    per_host: int

    @property
    def started(self) -> str:
        """The world in words."""
        each = f"{self.per_host} process{'es' * (self.per_host != 1)}"
        return f"{self.launcher} started {each}" + f" on each of {self.hosts} hosts" * (self.hosts > 1)


def launched(environment: Mapping[str, str] = os.environ) -> World | None:
    """Return the world that torchrun, accelerate, SLURM or Lightning's own launcher has made; None without any.

    Raises:
        InputError: mpirun has started several processes, which would not find each other.
    """

    def number(name: str, otherwise: int = 1) -> int:
        value = environment.get(name, "")
        return int(value) if value.isdecimal() else otherwise

    if "TORCHELASTIC_RUN_ID" in environment or {"RANK", "LOCAL_RANK", "WORLD_SIZE"} <= environment.keys():
        world = number("WORLD_SIZE")
        per_host = number("LOCAL_WORLD_SIZE", world)
        return World("torchrun", world // per_host, per_host)
    if "SLURM_NTASKS" in environment and environment.get("SLURM_JOB_NAME") not in ("bash", "interactive"):
        hosts = number("SLURM_NNODES", number("SLURM_JOB_NUM_NODES"))
        return World("SLURM", hosts, max(number("SLURM_NTASKS") // hosts, 1))
    if any(number(name) > 1 for name in UNSUPPORTED):
        raise InputError("mpirun started several processes, which would train apart; start them with torchrun or srun")
    return None


def settings(verb: str, trainer: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> dict[str, int]:
    """Return devices and hosts for the trainer, as they were launched; nothing where no launcher is.

    Args:
        verb: The verb.
        trainer: The trainer's config.
        environment: Variables of this process.

    Raises:
        InputError: the flags ask for another world, or the verb for one process.
    """
    world = launched(environment)
    if world is None:
        return {}
    if verb in SINGLE and world.hosts * world.per_host > 1:
        raise InputError(f"{verb} runs as one process, but {world.started}; start it alone")
    devices, hosts = trainer.get("devices"), trainer.get("num_nodes") or 1
    if devices not in UNSET and (given := _count(devices)) != world.per_host:
        raise InputError(
            f"--trainer.devices {devices}: {world.started}, one for each device; "
            f"give --trainer.devices {world.per_host}, leave the flag away, or start {given} processes"
        )
    if hosts not in (1, world.hosts):
        raise InputError(f"--trainer.num_nodes {hosts}: {world.started}; leave the flag away")
    return {"num_nodes": world.hosts} | ({"devices": world.per_host} if devices in UNSET else {})


def _count(devices: Any) -> int:
    """Number of devices that a flag asks for."""
    if isinstance(devices, str):
        # With a comma it is a list of their numbers, as "3," is that of one.
        return int(devices) if devices.strip().isdecimal() else len(list(filter(str.strip, devices.split(","))))
    return devices if isinstance(devices, int) else len(devices)
