"""MaskedPatch: the paper's self-supervised pre-training (section 4.6, appendix B.1.2) as a LightningModule."""

import math
from typing import Any, ClassVar, Literal, NoReturn, cast, get_args

import torch
from einops import rearrange, reduce, repeat
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn import functional as F

from vit_lightning.errors import InputError
from vit_lightning.evaluation.scores import SCORES
from vit_lightning.models import Net, NetConfig
from vit_lightning.models.config import ResolvedConfig
from vit_lightning.models.dense import Dense
from vit_lightning.models.vit import ViT
from vit_lightning.seeds import GOLDEN_GAMMA, run_seed, seed_from, shift_right, split_mix64
from vit_lightning.training.averaging import Averaging
from vit_lightning.training.metrics import split_metrics
from vit_lightning.training.optim import Optim, Schedule
from vit_lightning.training.recipe import RecipeModel

Target = Literal["mean_colour", "mean_colour_4x4", "pixels"]
CELLS = {"mean_colour": 1, "mean_colour_4x4": 4}
"""Rows, and columns, of mean colours that a patch is described by."""
SHADES = 8
"""Values that three bits give a channel."""


class MaskedPatch(RecipeModel):
    """Pre-train a net without labels: corrupt half of its patches and predict what they showed.

    Of the corrupted patch embeddings 80 % become a learned vector, 10 % another patch of the image, and 10 % stay as
    they are. Which ones depends on the run's seed, the epoch and the image's place in it; in validation on the place
    in the set alone, so that every validation sees the same, however the set is split into batches or over processes.
    Image size, mean and std come from the data; labels are ignored. Classifier takes the net from the checkpoint.

    Args:
        net: Architecture: a variant such as B/16, any single field of which may be overridden.
        optim: Optimiser and its numbers.
        schedule: Learning rate over the run, in optimiser steps.
        averaging: Average of the weights over the steps, validated and exported in place of the trained ones.
        target: What is predicted of a patch. mean_colour: its mean colour in 3 bits per channel, one of 512 classes
            (the paper's reported choice); mean_colour_4x4: that of each of its 4 x 4 parts; pixels: its normalised
            pixels, by mean squared error.
        recompute: Recompute the activations of every block in the backward pass (activation checkpointing). It saves
            memory and costs a forward pass.
        compile: Compile the net with torch.compile, in place. The keys of checkpoints do not change.
        cuda_graph: Replay the training step as CUDA graphs. They launch a small net's step several times faster. One
            holds loss and gradients, another the step of adam, adamw or muon. On one GPU, or on several with DDP. auto:
            where nothing hinders it; true: or else an error.
        fp8: Train with products in fp8 (delayed scaling). It pays from a width of 1,024 on. Its loss over a whole run
            has not been held against bf16's. The first and last block, attention, scores and export do without. Needs
            compute capability 8.9 or later.
        num_classes: Ignored: the net has no classes yet.
        image_size: Pixels per side, or (y, x), from the data.
        channels: Channels of the images, from the data; None: those of the net.
        window: Values of the images that became 0 and 1, from the data; None: those of 8 bits.
        mean: Channel means of images in [0, 1]; None: 0.5.
        std: Channel standard deviations of images in [0, 1]; None: 0.5.
    """

    monitor = ("val/loss", "min")
    scored_unit = "patch"
    """What its accuracies are of, for a reader."""
    """Metric and direction by which the best checkpoint is chosen."""
    fixed: ClassVar[tuple[str, ...]] = ("image_size", "target")
    net: ViT

    def __init__(
        self,
        net: NetConfig = NetConfig(),
        optim: Optim = Optim(),
        schedule: Schedule = Schedule(),
        averaging: Averaging = Averaging(),
        target: Target = "mean_colour",
        recompute: bool = False,
        compile: bool = False,
        cuda_graph: bool | Literal["auto"] = "auto",
        fp8: bool = False,
        num_classes: int | None = None,
        image_size: int | tuple[int, int] | None = None,
        channels: int | None = None,
        window: tuple[float, float] | None = None,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> None:
        facts: dict[str, Any] = {"num_classes": 0, "image_size": image_size, "channels": channels, "window": window}
        facts |= {"mean": mean, "std": std}
        engine = {"recompute": recompute, "compile": compile, "cuda_graph": cuda_graph, "fp8": fp8}
        super().__init__(net, optim, schedule, averaging, target=target, **engine, **facts)
        _check(self.config, target)
        self.target = target
        self.scores = split_metrics(SCORES[name] for name in (("loss", "top1") if target in CELLS else ("loss",)))

    def build_net(self) -> Net:
        """Add what masking needs beside the net, and freeze what only a classifier calls."""
        _check(self.config, self.target)  # once more: the data may have told the channels since
        net = cast(ViT, super().build_net())
        if math.prod(net.grid) < 2:
            raise InputError("an image of one patch has no half to corrupt; raise --data.image_size")
        for name, module in net.named_children():
            if name in ("pool", "representation"):
                module.requires_grad_(False)
        patch, channels, width = self.config.patch, self.config.channels, self.config.width
        values = CELLS[self.target] ** 2 * SHADES**channels if self.target in CELLS else patch**2 * channels
        self.masking = Masking(width, values)
        return net

    def compile_net(self) -> None:
        """Compile the masking, which calls the net's parts, not the net."""
        self.masking.compile()

    def shard(self, mesh: DeviceMesh) -> None:
        super().shard(mesh)
        for name in ("embed", "encode"):
            register_fsdp_forward_method(self.net, name)
        fully_shard(self.masking, mesh=mesh, mp_policy=self.sharded_precision)

    def trainable(self) -> nn.Module:
        return self

    def depth_of(self, name: str) -> int:
        """Layer of a parameter, for the optimiser's layer decay."""
        return 0 if name == "masking.mask" else self.net.depth_of(name.removeprefix("net."))

    def forward(self, images: Tensor, bits: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions (b, m, values) and targets (b, m, ...) of the m corrupted patches.

        Args:
            images: (b, c, y, x), uint8 or float in [0, 1].
            bits: what chance decides, from random_bits (3, b, n).
        """
        predicted, chosen = self.masking(self.net, self.normalise(images), bits)
        return predicted, _take(self.targets(images), chosen)

    def targets(self, images: Tensor) -> Tensor:
        """What every patch showed: colour classes (b, n, parts), or normalised pixels (b, n, p q c)."""
        patch = self.config.patch
        height, width = (places * patch for places in self.net.grid)
        images = images[:, :, :height, :width]
        if self.target in CELLS:
            return colour_classes(images, patch, CELLS[self.target])
        return rearrange(self.normalise(images), "b c (y p) (x q) -> b (y x) (p q c)", p=patch, q=patch)

    @property
    def objective(self) -> str:
        """What training minimises, in words."""
        return f"{'cross-entropy' if self.target in CELLS else 'mean squared error'} of {self.target}"

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, _ = batch
        bits = self._bits(images, batch_idx * len(images), seed_from(run_seed(), self.current_epoch))
        loss = self.training_loss(images, bits)
        self.log_training_loss(loss, len(images))
        return self.share_of_step(loss, batch_idx)

    def batch_loss(self, images: Tensor, bits: Tensor) -> Tensor:
        """Mean loss of images (b, c, y, x) whose corruption is drawn by bits (3, b, n)."""
        return self.losses(*self(images, bits)).mean()

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._evaluate("val", *batch, batch_idx)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self._evaluate("test", *batch, batch_idx)

    def predict_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> NoReturn:
        raise InputError("a net that learnt masked patches has no classes yet; fine-tune a Classifier from it first")

    def losses(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Loss of each image (b), averaged over its corrupted patches and, in a patch, over colours or pixels."""
        predicted = predicted.float()
        if self.target not in CELLS:
            return reduce((predicted - target.float()).square(), "b m values -> b", "mean")
        logits = rearrange(predicted, "b m (parts colours) -> (b m parts) colours", parts=target.shape[-1])
        losses = F.cross_entropy(logits, rearrange(target, "b m parts -> (b m parts)"), reduction="none")
        return reduce(losses, "(b each) -> b", "mean", b=len(target))

    def hits(self, predicted: Tensor, target: Tensor) -> Tensor:
        """Share of right colours of each image (b)."""
        logits = rearrange(predicted, "b m (parts colours) -> b m parts colours", parts=target.shape[-1])
        return reduce((logits.argmax(-1) == target).float(), "b m parts -> b", "mean")

    def _evaluate(self, split: str, images: Tensor, labels: Tensor, batch_idx: int) -> None:
        """Update the scores; a record whose label is negative is padding and counts nothing."""
        if batch_idx == 0:
            self._seen = 0
        outcome = self(images, self._bits(images, self._seen, seed=0))
        self._seen += len(images)
        scores, weight = self.scores[split], ((labels if labels.ndim == 1 else labels[:, 0]) >= 0).float()
        scores["loss"].update(self.losses(*outcome), weight)
        if "top1" in scores:
            scores["top1"].update(self.hits(*outcome), weight)
        for name, score in scores.items():
            self.log(f"{split}/{name}", score, prog_bar=True, on_step=False, on_epoch=True)

    def _bits(self, images: Tensor, first: int, seed: int) -> Tensor:
        """Chance for a batch that begins with this process's record number `first`; records are dealt out in turns."""
        places = torch.arange(first, first + len(images), device=images.device)
        return random_bits(seed, places * self.trainer.world_size + self.global_rank, math.prod(self.net.grid))


class Masking(nn.Module):
    """What pre-training puts beside a net: the vector that hides a patch, and the linear map that predicts it.

    Args:
        width: width of a token.
        values: numbers predicted of a patch.
    """

    def __init__(self, width: int, values: int) -> None:
        super().__init__()
        self.mask = nn.Parameter(torch.empty(1, 1, width))
        self.prediction = Dense(width, values, nn.init.zeros_)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.mask)

    def forward(self, net: ViT, images: Tensor, bits: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions (b, m, values) for the corrupted patches of normalised images, and their numbers (b, m)."""
        patches, chosen = self.corrupt(net.embed(images), bits)
        tokens = net.encode(patches)[:, net.num_prefix_tokens :]
        if net.config.norm_after_pool:
            tokens = net.norm(tokens)
        return self.prediction(_take(tokens, chosen)), chosen

    def corrupt(self, patches: Tensor, bits: Tensor) -> tuple[Tensor, Tensor]:
        """Patches (b, n, d), half of them hidden (80 %), another patch (10 %) or themselves (10 %); their numbers."""
        n = patches.shape[1]
        order, kind, step = bits[0], bits[1, :, : n // 2], bits[2, :, : n // 2]
        chosen = order.argsort(dim=1)[:, : n // 2]
        own, other = _take(patches, chosen), _take(patches, (chosen + 1 + step % (n - 1)) % n)
        kind = rearrange(kind % 10, "b m -> b m 1")
        replaced = torch.where(kind < 8, self.mask.to(patches.dtype), torch.where(kind < 9, other, own))
        places = repeat(chosen, "b m -> b m d", d=patches.shape[2])
        return patches.scatter(1, places, replaced), chosen


def random_bits(seed: int, places: Tensor, n: int) -> Tensor:
    """Three random numbers (3, b, n) in [0, 2^63) for each of n patches, drawn where `places` (b) lie.

    They are a pure function of seed, an image's place and the patch: outputs of SplitMix64 (Steele et al., 2014) by
    number, which need no state and never make the host wait for the device.
    """
    number = 3 * n * rearrange(places, "b -> 1 b 1") + torch.arange(3 * n, device=places.device).reshape(3, 1, n)
    return shift_right(split_mix64(seed % 2**63 + (number + 1) * GOLDEN_GAMMA), 1)


def colour_classes(images: Tensor, patch: int, cells: int = 1) -> Tensor:
    """Mean colours (b, n, cells^2) of patches, or of cells x cells parts of each, as classes.

    A channel has 3 bits, floor(mean / 32) of values 0 to 255, the first channel highest: red * 64 + green * 8 + blue.
    The paper does not state its binning; this is ours.

    Args:
        images: (b, c, y, x), uint8 or float in [0, 1]; the patch divides their sides.
        patch: side of a patch in pixels.
        cells: parts of a patch per side, which divide the patch.
    """
    side = patch // cells
    values = images if images.dtype == torch.uint8 else (images.float() * 255).round()
    parts = "b c (y i p) (x j q) -> b (y x) (i j) c"
    sums = reduce(values.float(), parts, "sum", i=cells, j=cells, p=side, q=side)  # exact, unlike means
    shades = (sums / (256 // SHADES * side**2)).long()
    return (shades * SHADES ** torch.arange(images.shape[1] - 1, -1, -1, device=images.device)).sum(-1)


def _take(values: Tensor, chosen: Tensor) -> Tensor:
    """Rows (b, m, d) of values (b, n, d) by their numbers (b, m)."""
    return values.take_along_dim(rearrange(chosen, "b m -> b m 1"), dim=1)


def _check(config: ResolvedConfig, target: Target) -> None:
    """Refuse nets whose patches tell each other's pixels, and targets that do not suit the patches."""
    if target not in get_args(Target):
        raise InputError(f"target {target!r} is none of {', '.join(get_args(Target))}")
    if config.stages or config.stride < config.patch:
        raise InputError(
            f"the patches of {config.variant} with stride {config.stride} share pixels, which would tell the answers; "
            "masked patches need a plain transformer such as --model.net.variant B/16, and no --model.net.stride"
        )
    if config.patch_dropout:
        raise InputError(
            f"patches that net.patch_dropout {config.patch_dropout} leaves out cannot be predicted; leave that flag out"
        )
    if config.patch % CELLS.get(target, 1):
        raise InputError(f"target {target} needs a patch that 4 divides, not {config.patch}; use mean_colour or pixels")
    if target in CELLS and config.channels > 4:
        raise InputError(f"target {target} has 8^{config.channels} classes for {config.channels} channels; use pixels")
