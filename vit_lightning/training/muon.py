"""Muon: gradients of the layers inside a net, made orthogonal; everything else learns by AdamW."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

MOMENTUM = 0.95
POLYNOMIAL = (3.4445, -4.775, 2.0315)
"""x -> a x + b x^3 + c x^5, which takes singular values in (0, 1] to about 1 when it is repeated."""
ROUNDS = 5


class Muon(AdamW):
    """AdamW, whose groups with `muon` learn by Muon at the same learning rate and decay.

    The momentum's nearest orthogonal matrix is scaled to the size of an update of AdamW's, so that learning rates are
    of the same order (on digits the best is three times AdamW's, experiments/sweeps/digits_muon.yaml). Matrices of one
    shape are made orthogonal together, and queries, keys and values apart, since they are three maps. Source: Jordan
    et al. (2024), github.com/KellerJordan/Muon; the scale is that of Liu et al., arXiv 2502.16982, section 2.2.

    Args:
        params: parameter groups as of AdamW, each with its own `muon`; where that is true all are matrices.
        settings: AdamW's.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        Optimizer.__setstate__(self, state)  # AdamW's looks for its own state in every parameter

    def step(  # type: ignore[override]  # torch returns what the closure gives, though it says float
        self, closure: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["muon"]]
        try:
            super().step()
        finally:
            self.param_groups = groups
        for group in groups:
            if group["muon"]:
                self._learn(group)
        return loss

    @torch.no_grad()
    def _learn(self, group: dict[str, Any]) -> None:
        pairs = zip(group["parameter_names"], group["params"], strict=True)
        named = [(name, parameter) for name, parameter in pairs if parameter.grad is not None]
        if not named:
            return
        parameters, gradients = [each for _, each in named], [each.grad for _, each in named]
        for parameter in parameters:
            if parameter not in self.state:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momenta = [self.state[parameter]["momentum"] for parameter in parameters]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        updates = _updates([name for name, _ in named], ahead)
        torch._foreach_mul_(updates, -group["lr"])  # a tensor in a CUDA graph, which `alpha` may not be
        torch._foreach_add_(parameters, updates)


def _updates(names: Sequence[str], matrices: Sequence[Tensor]) -> list[Tensor]:
    """Return each matrix made orthogonal, scaled to the root mean square of AdamW's updates, about 0.2."""
    pieces = [matrix.chunk(3) if ".qkv." in name else (matrix,) for name, matrix in zip(names, matrices, strict=True)]
    flat = [piece if piece.shape[0] <= piece.shape[1] else piece.mT for parts in pieces for piece in parts]
    places = defaultdict(list)
    for place, piece in enumerate(flat):
        places[piece.shape].append(place)
    for shape, members in places.items():
        made = orthogonal(torch.stack([flat[place] for place in members])).to(flat[members[0]].dtype)
        made *= 0.2 * math.sqrt(max(shape))
        for place, piece in zip(members, made, strict=True):
            flat[place] = piece
    left = iter(flat)
    turned = [[next(left) if part.shape[0] <= part.shape[1] else next(left).mT for part in parts] for parts in pieces]
    return [torch.cat(parts) if len(parts) > 1 else parts[0] for parts in turned]


def orthogonal(matrices: Tensor) -> Tensor:
    """Return about the nearest matrices `(n, rows, columns)` of orthogonal rows, which are no more than the columns.

    By Newton and Schulz's iteration, whose polynomial leaves singular values between 0.7 and 1.2; in bf16 on a GPU.
    """
    x = matrices.bfloat16() if matrices.is_cuda else matrices.clone()
    x /= x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    a, b, c = POLYNOMIAL
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x
