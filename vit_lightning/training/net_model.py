"""A net that is built once the facts of the data are known, as a LightningModule."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, assemble, half_on_gpu, resolve
from vit_lightning.models.config import as_pair, check_channels
from vit_lightning.models.recompute import recompute
from vit_lightning.models.vit import ViT
from vit_lightning.training.construction import Completed, may_build, plain
from vit_lightning.training.data_facts import NORMALISATION, take_facts, with_channels
from vit_lightning.training.scored_classes import ScoredClasses

CENTRE = (0.5,)
"""Mean and standard deviation of a channel that map [0, 1] to the paper's [-1, 1]."""
SILENT = "the default, since the weights state none; --data.mean and --data.std state others"
"""Where mean and std come from that weights should have said."""


class NetModel(LightningModule, metaclass=Completed):
    """A net and the normalisation of its images, which know the data's facts.

    The net is there after construction where num_classes and image_size are given, else once a Trainer knows the data.

    Args:
        net: Architecture, as a config, its dict, or the name of a variant.
        channels: Channels of the images; None: those of the net.
    """

    fixed: ClassVar[tuple[str, ...]] = ("num_classes", "image_size")
    """Hyper-parameters that a checkpoint's tensors depend on, beside the net's fields."""
    unsaved: ClassVar[tuple[str, ...]] = ()
    """Constructor arguments of a subclass that its checkpoints do without."""
    hparams: Any
    """The constructor's arguments in plain types, as items and attributes."""
    mean: Tensor
    std: Tensor
    weights: str | None = None
    """Where the net's first weights come from, if from elsewhere."""
    shifted: ScoredClasses | None = None
    """What scores data that have some of the net's classes alone."""

    def __init__(self, net: NetConfig | dict | str, channels: int | None) -> None:
        super().__init__()
        if isinstance(net, str):
            net = NetConfig(net)
        self.chosen = with_channels(net if isinstance(net, NetConfig) else NetConfig(**net), channels)
        """The net as it was asked for, with what that leaves open."""
        self.config = resolve(self.chosen)
        self.net: Net = None  # type: ignore[assignment]  # until the facts of the data are known
        self.assumed: set[str] = set()
        """Which of window, mean and std nobody has stated yet."""
        self.normalised_by = "the default"
        """Where mean and std come from, if not from the data's own flags."""
        self.statistics_of = "the weights"
        """Whose mean and std those are that came with the weights."""

    def complete(self, arguments: Mapping[str, Any]) -> None:
        """Keep a subclass's own constructor arguments, and build the net if the facts of the data are known."""
        for name, value in arguments.items():
            if name not in self.hparams and name not in self.unsaved:
                self.hparams[name] = plain(name, value, type(self).__name__)
        if may_build() and None not in (self.hparams.num_classes, self.hparams.image_size):
            self._make_net()

    def setup(self, stage: str) -> None:
        """Take what the data knows and nobody has stated."""
        take_facts(self, self.trainer.datamodule)  # type: ignore[attr-defined]  # set by Lightning from outside

    def configure_model(self) -> None:
        """Build the net once the facts of the data are known; Lightning calls this on the right device."""
        if self.net is None:
            missing = [name for name in ("num_classes", "image_size") if self.hparams[name] is None]
            if missing:
                raise InputError(
                    f"{' and '.join(missing)} unknown: give --data, or --ckpt_path to take them from there"
                )
            self._make_net()
        if self.device_mesh is not None and not isinstance(self.net, FSDPModule):
            self.shard(self.device_mesh["data_parallel"])

    def _make_net(self) -> None:
        # cuDNN's backward pass of attention gives NaN for 64 equal tokens (torch 2.11, cuDNN 9.19 on an H100).
        torch.backends.cuda.enable_cudnn_sdp(False)
        given = self.hparams["mean"] or self.hparams["std"]
        self.net = self.build_net()
        taken = self.hparams["mean"] or self.hparams["std"]
        default = SILENT if self.weights else "the default"
        self.normalised_by = "the checkpoint" if given else self.statistics_of if taken else default
        for name in NORMALISATION:
            if not self.hparams[name]:
                self.assumed.add(name)
            self._normalise_by(name, self.hparams[name] or CENTRE * self.config.channels)
        if self.hparams.recompute:
            recompute(self.net)
        if self.hparams.compile:
            self.compile_net()

    def _normalise_by(self, name: str, values: Sequence[float]) -> None:
        """Set mean or std."""
        if len(values) != self.config.channels:
            raise InputError(
                f"{name} has {len(values)} values for a net of {self.config.channels} channels; "
                f"give --data.{name} one value per channel"
            )
        self.hparams[name] = tuple(values)
        self.register_buffer(name, torch.tensor(values)[:, None, None], persistent=False)

    def state_fact(self, name: str, value: Any) -> None:
        """Take a fact of the data that nobody had stated."""
        self.assumed.discard(name)
        self.hparams[name] = value
        if name == "channels":
            self._take_channels(value)
        if name in NORMALISATION and self.net is not None:
            self._normalise_by(name, value)

    def _take_channels(self, channels: int) -> None:
        """Let the net have the channels of the data, which a net that stands cannot change."""
        if self.net is not None and self.config.channels != channels:
            raise InputError(
                f"--data.channels is {channels}, but the model's net was built for {self.config.channels}; make the "
                f"model with channels={channels}"
            )
        if self.net is None:
            self.chosen = with_channels(self.chosen, channels)
            self.config = resolve(self.chosen)
            self.hparams["net"] = asdict(self.config)

    @property
    def pixel_facts(self) -> tuple[int | None, tuple[float, float] | None]:
        """Channels and window of the images, as far as they were stated; those of the data, or of the checkpoint."""
        window = self.hparams["window"]
        return self.hparams["channels"], window and tuple(window)

    def build_net(self) -> Net:
        """Return the new net; a subclass may fill it, freeze parts of it, or add what stands beside it."""
        return assemble(self.config, as_pair(self.hparams.image_size), self.hparams.num_classes)

    def compile_net(self) -> None:
        """Compile in place what the steps call."""
        self.net.compile()

    def shard(self, mesh: DeviceMesh) -> None:
        """Shard every block, then what is left, over the processes of a ModelParallelStrategy (FSDP2)."""
        for block in self.net.blocks if isinstance(self.net, ViT) else ():
            fully_shard(block, mesh=mesh, mp_policy=self.sharded_precision)
        fully_shard(self.net, mesh=mesh, mp_policy=self.sharded_precision)

    def on_validation_end(self) -> None:
        """Shard the net's outermost weights again: FSDP2 leaves a whole copy of them until the next backward pass."""
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    @property
    def sharded_precision(self) -> MixedPrecisionPolicy:
        """In bf16-mixed, weights travel and compute in bf16; they are kept, and their gradients summed, in fp32.

        Those of low-rank updates travel in fp32, in which the updates are added to the kernels.
        """
        if self.trainer.precision != "bf16-mixed" or self.hparams.get("lora", {}).get("rank"):
            return MixedPrecisionPolicy()
        return MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)

    def normalise(self, images: Tensor) -> Tensor:
        """Map uint8, or float in [0, 1], to zero mean and unit deviation as the weights expect."""
        check_channels(images.shape[1], len(self.mean))
        if (dtype := half_on_gpu(images)) is not None:
            from vit_lightning.models.fast.rowwise_kernels import normalise

            return normalise(images, self.mean, self.std, dtype)
        if images.dtype == torch.uint8:
            images = images.to(self.mean.dtype) / 255
        return ((images - self.mean) / self.std).to(self.mean.dtype)
