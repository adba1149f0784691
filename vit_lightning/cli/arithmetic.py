"""The precision of a run where no flag names one."""

import os
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch.plugins import Precision

ON_GPU = ("auto", "gpu", "cuda")


def default_precision(verb: str, trainer: Mapping[str, Any], trained: Mapping[str, Any]) -> str | None:
    """Return the precision that suits the device and the checkpoint; None: Lightning's own, which is fp32.

    A new fit takes bf16-mixed on GPUs that calculate in it. A checkpoint goes on, and is scored, in its own.

    Args:
        verb: The verb.
        trainer: The trainer's config.
        trained: Facts of the checkpoint; empty without one.
    """
    plugins = trainer.get("plugins") or []
    plugins = plugins if isinstance(plugins, list | tuple) else [plugins]
    if trainer.get("precision") is not None or any(_sets_precision(plugin) for plugin in plugins):
        return None
    on_gpu = trainer.get("accelerator") in ON_GPU and torch.cuda.is_available()
    if not on_gpu:
        saved = trained.get("precision") or ""
        return saved if verb == "fit" and saved.startswith("bf16") else None  # the CPU's half floats are slow
    allow_tf32()
    if trained:
        return trained.get("precision") or None
    trains = verb in ("fit", "benchmark", "doctor", "plan")
    return "bf16-mixed" if trains and torch.cuda.is_bf16_supported(including_emulation=False) else None


def allow_tf32() -> None:
    """Let a GPU multiply what stays fp32 in TF32, unless the process or NVIDIA's own variable says otherwise."""
    if torch.get_float32_matmul_precision() == "highest" and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0":
        torch.set_float32_matmul_precision("high")


def _sets_precision(plugin: Any) -> bool:
    if isinstance(plugin, Precision):
        return True
    path = plugin if isinstance(plugin, str) else getattr(plugin, "class_path", "")
    return "precision" in str(path).lower()
