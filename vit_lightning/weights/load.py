"""From a source to a net: fetched and opened once, understood by its layout, and filled in tensor by tensor."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from vit_lightning.errors import InputError
from vit_lightning.models import Net, NetConfig, assemble, resolve
from vit_lightning.models.config import ResolvedConfig, as_pair, is_timm
from vit_lightning.models.variants import TIMM
from vit_lightning.runs.checkpoint_structure import check_structure
from vit_lightning.runs.folders import checkpoint_behind
from vit_lightning.weights.archive import Archive, archive_of, open_archive
from vit_lightning.weights.completeness import check_dtype, check_whole, mappings_of, some
from vit_lightning.weights.heads import leave_head, note_empty_head
from vit_lightning.weights.layouts import LAYOUTS, Layout, checkpoint, timm_net
from vit_lightning.weights.layouts.tensor_mapping import TensorMapping, Weights, to_ours
from vit_lightning.weights.report import Report
from vit_lightning.weights.resize import LEAVE_OUT, Resampling, Resizer
from vit_lightning.weights.source import fetch

# A net's size, fields that change what it computes but not the shape of any tensor, and those that the head relies on.
MUST_AGREE: tuple[str, ...] = ("depth", "width", "mlp", "heads", "gelu", "swiglu", "norm_eps")
MUST_AGREE += ("resnet_code", "attention", "position", "position_at", "position_temperature")
# Fields that a bare weights file cannot tell; each has a flag of convert and export.
MAY_BE_STATED = ("gelu", "norm_eps", "pool", "norm_after_pool", "resnet_code")
MUST_AGREE_FOR_HEAD = ("pool", "norm_after_pool", "representation")
SET_FIELDS = f"set the net's fields as the weights have them, or {LEAVE_OUT}"
Size = int | tuple[int, int]


@dataclass(frozen=True)
class OpenedWeights:
    """Weights that are fetched and opened; their tensors are read when a net is filled.

    Args:
        source: where they came from.
        archive: their tensors and facts.
        layout: the layout that they have; None: only a net of timm that is named may know them.
        stated: fields of the net that the caller states, for a file that does not say them.
    """

    source: str
    archive: Archive
    layout: Layout | None
    stated: NetConfig = field(default_factory=NetConfig)

    def config(self, heads: int | None = None) -> ResolvedConfig:
        """Returns the resolved config of the net that the weights are for.

        Args:
            heads: number of attention heads, for a file that does not say it.

        Raises:
            InputError: the weights are not those of a whole net.
        """
        return self._understand(heads, None, self.stated)[0].config

    @property
    def num_classes(self) -> int:
        """Classes of the head that the weights have; 0: none."""
        return self._understand(self.stated.heads, None, self.stated)[0].num_classes

    @property
    def class_names(self) -> list[str]:
        """Names of the classes of the head that the weights have; empty: they do not say."""
        return list(self._understand(self.stated.heads, None, self.stated)[0].class_names)

    @property
    def of_data(self) -> dict[str, Any]:
        """What a checkpoint of ours keeps of its data; empty: it is none, or keeps nothing."""
        return dict(self._understand(self.stated.heads, None, self.stated)[0].of_data)

    @property
    def image_size(self) -> tuple[int, int]:
        """Size of the images that the weights are for, (y, x)."""
        return self._understand(self.stated.heads, None, self.stated)[0].image_size

    @property
    def loss(self) -> str | None:
        """What makes probabilities of the logits, softmax or sigmoid; None: the weights do not say."""
        return _report(self.source, self._understand(self.stated.heads, None, self.stated)[0]).loss

    def build(
        self, heads: int | None = None, image_size: Size | None = None, resampling: Resampling = "bilinear"
    ) -> tuple[Net, Report]:
        """Builds and fills the net that the weights are for: `load_net` has the arguments."""
        weights, own = self._understand(heads, image_size, self.stated)
        if heads not in (None, weights.config.heads):
            raise InputError(f"The file's net has {weights.config.heads} heads, but heads is {heads}: leave heads out.")
        for name in MAY_BE_STATED:
            said, given = getattr(weights.config, name), getattr(self.stated, name)
            if given not in (None, said):
                raise InputError(f"The file's net has {name}={said}, but {name} is {given}: leave {name} out.")
        size = weights.image_size if image_size is None else as_pair(image_size)
        net = own if size == weights.image_size else _skeleton(weights.config, size, weights.num_classes)
        report, resizer = _report(self.source, weights), Resizer(own, net, resampling)
        table = mappings_of(weights, net).items()
        wanted = net.state_dict()
        state = {name: _take(name, mapping, wanted[name], weights, resizer, report) for name, mapping in table}
        net.load_state_dict(state, assign=True)
        _give_storage(net)
        note_empty_head(net, report)
        return net, report

    def fill(
        self,
        net: Net,
        head: Literal["reset", "keep"] = "keep",
        *,
        resampling: Resampling = "bilinear",
        adapt: bool = False,
    ) -> Report:
        """Fills a net that exists: `load_into` has the arguments."""
        weights, own = self._understand(net.config.heads, net.image_size, net.config)
        report = _report(self.source, weights)
        _compare(weights, net, MUST_AGREE if head == "reset" else MUST_AGREE + MUST_AGREE_FOR_HEAD)
        wanted, held = net.state_dict(), mappings_of(weights, own)
        if head == "reset":
            leave_head(wanted, held, own, report)
        elif net.num_classes and not weights.num_classes:
            raise InputError(
                f"The weights have no head, the net's is for {net.num_classes} classes: fine-tune from them with fit, "
                "or begin a new head with --model.weights_head reset (of load_into: head)."
            )
        elif weights.num_classes != net.num_classes:
            raise InputError(
                f"The head of the weights is for {weights.num_classes} classes, the net's for {net.num_classes}: "
                "begin a new head with --model.weights_head reset, or take data of the same classes."
            )
        if lacking := [name for name in wanted if name not in held]:
            raise InputError(f"The weights lack {some(lacking)}, which the net has: {SET_FIELDS}.")
        if surplus := [name for name in held if name not in wanted]:
            raise InputError(f"The net lacks {some(surplus)}, which the weights have: {SET_FIELDS}.")
        resizer = Resizer(own, net, resampling, adapt, report.mean, report.std)
        with torch.no_grad():
            for name, tensor in wanted.items():
                tensor.copy_(_take(name, held[name], tensor, weights, resizer, report))
        report.adapt_normalisation(net.config.channels)
        if net.config.stages and weights.config.channels != net.config.channels:
            report.notes.append("the first layer standardises its kernels: answers to grey images are near, not equal")
        if head == "keep":
            note_empty_head(net, report)
        return report

    def _understand(self, heads: int | None, image_size: Size | None, config: NetConfig) -> tuple[Weights, Net]:
        """What the archive holds, and the net that it is for, still without storage."""
        size, named = None if image_size is None else as_pair(image_size), config.variant or ""
        if named.startswith(TIMM) and self.layout not in (LAYOUTS["checkpoint"], LAYOUTS["safetensors"]):
            weights = timm_net.read_as(self.archive, resolve(config), size)
        elif self.layout is None:
            names = ", ".join(list(self.archive.stored)[:3])
            raise InputError(
                f"{self.source} holds tensors of no known layout ({names}, ...): its net is not one of ours. "
                "A file of timm's is taken by its own net: --model.net.variant timm/NAME."
            )
        else:
            weights = self.layout.read(self.archive, heads, size)
        weights.dropped = self.archive.dropped | weights.dropped
        weights.notes = self.archive.notes + weights.notes
        _settle_assumed(weights, self.stated)
        weights.assume_statistics()
        net = _skeleton(weights.config, weights.image_size, weights.num_classes)
        check_whole(weights, net, self.source)
        return weights, net


def open_weights(source: str | Path, raw: bool = False, stated: NetConfig | None = None) -> OpenedWeights:
    """Fetches and opens weights, of which `config`, `build` and `fill` read what they need.

    Args:
        source: local path, https address or hf://owner/repo[/file]; of a run folder its best checkpoint is taken.
        raw: of a file with averaged weights, take those that were trained.
        stated: fields of the net that the caller states, for a file that does not say them.

    Raises:
        InputError: the source cannot be read, or is of no known layout.
    """
    source = checkpoint_behind(str(source))
    archive = open_archive(fetch(source), raw)
    layout = next((layout for layout in LAYOUTS.values() if layout.recognises(archive)), None)
    return OpenedWeights(source, archive, layout, stated or NetConfig())


def check_checkpoint(path: Path, content: dict[str, Any], is_ours: bool) -> None:
    """Refuses a checkpoint whose config is not that of its tensors, before anything is built after it.

    Args:
        path: where it lies.
        content: what it holds; its tensors may lack storage.
        is_ours: whether its model is one of ours, whose net is known in full.

    Raises:
        InputError: the config says another size or number of tensors than the checkpoint holds.
    """
    check_structure(path, content)
    facts = content.get("hyper_parameters")
    if is_ours and not (isinstance(facts, dict) and isinstance(facts.get("net"), dict)):
        raise InputError(f"{path} is damaged: it lacks the hyper_parameters of its net; give another checkpoint")
    net = facts.get("net") if isinstance(facts, dict) else None
    if not isinstance(net, dict) or not (is_ours or net.keys() & checkpoint.FIELDS):
        return
    archive, layout = archive_of(path, content), LAYOUTS["checkpoint"]
    if is_ours:
        OpenedWeights(str(path), archive, layout).config()
    else:
        layout.read(archive, None, None)


def load_net(
    source: str | Path,
    *,
    heads: int | None = None,
    image_size: Size | None = None,
    raw: bool = False,
    resampling: Resampling = "bilinear",
    stated: NetConfig | None = None,
) -> tuple[Net, Report]:
    """Builds the net that a weights file is for, and fills it.

    Args:
        source: local path, https address or hf://owner/repo[/file].
        heads: number of attention heads, for a file that does not say it.
        image_size: pixels per side, or (y, x), to use the net at; None: the file's own.
        raw: of a file with averaged weights, take those that were trained.
        resampling: how positions get to another grid: bilinear is the paper's, bicubic suits DINOv2.
        stated: fields of the net (those of MAY_BE_STATED), for a file that does not say them.

    Returns:
        The net in float32 on the CPU, and what became of every tensor.

    Raises:
        InputError: the source cannot be read, or is not a whole net of a known layout.
    """
    return open_weights(source, raw, stated).build(heads, image_size, resampling)


def load_into(
    net: Net,
    source: str | Path,
    head: Literal["reset", "keep"] = "keep",
    *,
    raw: bool = False,
    resampling: Resampling = "bilinear",
    adapt: bool = False,
) -> Report:
    """Fills a net with weights; positions are resized to its grid.

    Args:
        net: the net.
        source: local path, https address or hf://owner/repo[/file].
        head: keep takes the head of the weights, whose classes must be the net's; reset leaves the net its own head,
            and drops a hidden layer of the weights that the net lacks.
        raw: of a file with averaged weights, take those that were trained.
        resampling: how positions get to another grid: bilinear is the paper's, bicubic suits DINOv2.
        adapt: also resize the first layer to another patch size or another number of channels.

    Raises:
        InputError: the weights are for another net, or their head is for other classes.
    """
    return open_weights(source, raw).fill(net, head, resampling=resampling, adapt=adapt)


def _settle_assumed(weights: Weights, stated: NetConfig) -> None:
    """Takes the fields that the file does not say from the caller, and notes those that nobody says."""
    given = {name: value for name in weights.assumed if (value := getattr(stated, name)) is not None}
    if given.get("pool") not in (None, "token", "gap"):
        del given["pool"]  # has tensors of its own, which the file would show
    weights.config = resolve(replace(weights.config, **given))
    if unsaid := [name for name in weights.assumed if name not in given]:
        fields = ", ".join(f"net.{name}={getattr(weights.config, name)}" for name in unsaid)
        example = unsaid[0]
        weights.notes.append(
            f"the file does not say {fields}: assumed; --model.net.{example} and so on (of convert and export: "
            f"--{example}) state others"
        )


def _skeleton(config: ResolvedConfig, image_size: tuple[int, int], num_classes: int) -> Net:
    # timm's nets compute tables of their own while they are built, which only storage can hold.
    with torch.device("cpu" if is_timm(config) else "meta"):
        return assemble(config, image_size, num_classes)


def _give_storage(net: Net) -> None:
    """Computes the tables that no file holds, such as fixed sine and cosine positions."""
    for module in net.modules():
        if any(buffer.is_meta for buffer in module.buffers(recurse=False)):
            module.to_empty(device="cpu", recurse=False)
            module.reset_parameters()  # type: ignore[operator]  # every module of ours that has a table has it


def _report(source: str, weights: Weights) -> Report:
    return Report(
        source,
        weights.layout,
        dropped=dict(weights.dropped),
        notes=list(weights.notes),
        mean=weights.mean,
        std=weights.std,
        assumes_statistics=weights.assumes_statistics,
        window=weights.window,
        class_names=list(weights.class_names),
        training=dict(weights.training),
        of_data=dict(weights.of_data),
    )


def _take(
    name: str, mapping: TensorMapping, wanted: Tensor, weights: Weights, resizer: Resizer, report: Report
) -> Tensor:
    """Reads one tensor, resizes it to the net and reports it."""
    read = to_ours(mapping, weights.stored)
    check_dtype(name, read.dtype, wanted, report.source)
    tensor, how = resizer(name, read)
    report.loaded.append(name)
    if how:
        report.resampled[name] = how
    return tensor.contiguous()


def _compare(weights: Weights, net: Net, fields: Iterable[str]) -> None:
    """Refuses weights whose numbers would mean something else in the net."""
    for name in fields:
        theirs, ours = getattr(weights.config, name), getattr(net.config, name)
        if theirs != ours:
            is_of_variant = ours == getattr(resolve(NetConfig(variant=net.config.variant)), name)
            out = LEAVE_OUT if is_of_variant else f"leave out --model.net.{name}"
            raise InputError(
                f"The weights are for net.{name}={theirs}, but the net has {ours}: set it to {theirs}, or {out}."
            )
