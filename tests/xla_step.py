"""One training step of the net on XLA's CPU device, compared with the plain one. Run by hand:

    python -m venv xla && xla/bin/pip install torch==2.9.1 torch_xla==2.9.0 einops numpy
    PJRT_DEVICE=CPU xla/bin/python -m tests.xla_step

torch_xla lags behind torch, so it has an environment of its own; Lightning is not needed there.
"""

import copy
import os
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vit_lightning.models import NetConfig, build
from vit_lightning.training.optim import Optim

BATCH, SIZE, CLASSES, STEPS = 4, 32, 10, 3


def train(
    net: nn.Module, device: torch.device, images: Tensor, labels: Tensor, sync: Callable[[], None] = lambda: None
) -> tuple[list[float], Tensor]:
    """Losses of some steps, each clipped by the global norm, and all weights at the end, in one row."""
    net.to(device)
    optimizer = Optim(name="adamw", lr=1e-3, weight_decay=0.05).build(net)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images.to(device)), labels.to(device), label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        sync()  # without it every tensor that is read would compile a graph of its own
        losses.append(loss.item())
    return losses, torch.cat([parameter.detach().cpu().flatten() for parameter in net.parameters()])


def main() -> int:
    """Print the largest differences; fail where they exceed what the order of sums explains."""
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    try:
        import torch_xla
    except ModuleNotFoundError:
        sys.exit("error: this check needs torch_xla; this file's first lines say how to install it")
    import torch_xla.debug.metrics as met

    device = torch_xla.device()
    torch.manual_seed(0)
    images, labels = torch.randn(BATCH, 3, SIZE, SIZE), torch.arange(BATCH) % CLASSES
    worst = 0.0
    for name, config in {
        "class token": NetConfig("mu/8", depth=2),
        "gap, sincos, registers": NetConfig("mu/8", depth=2, pool="gap", position="sincos_2d", registers=2),
        "map head": NetConfig("mu/8", depth=2, pool="map", representation=16),
    }.items():
        net = build(config, SIZE, CLASSES)
        # On XLA first: autograd counts the devices once, at its first step.
        on_xla = train(copy.deepcopy(net), device, images, labels, torch_xla.sync)
        plain = train(net, torch.device("cpu"), images, labels)
        losses = max(abs(a - b) for a, b in zip(plain[0], on_xla[0], strict=True))
        weights = float((plain[1] - on_xla[1]).abs().max())
        print(f"{name}: {STEPS} steps, losses differ by {losses:.1e}, weights by {weights:.1e}")
        worst = max(worst, losses)
    reading = "aten::_local_scalar_dense"  # loss.item()
    fallbacks = [name for name in met.counter_names() if name.startswith("aten::") and name != reading]
    print(f"operations that XLA left to the CPU: {', '.join(fallbacks) or 'none'}")
    return int(worst > 1e-5 or bool(fallbacks))


if __name__ == "__main__":
    sys.exit(main())
