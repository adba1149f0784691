"""The verb `convert`: weights from one public layout to another."""

from pathlib import Path
from typing import Literal

NAMELESS = ("npz", "torchvision")
"""Layouts that have no place for names of classes."""
ENDINGS = {".npz": ("npz",), ".safetensors": (), ".ckpt": ("checkpoint",)}
"""Layouts that a name promises by its ending."""


def convert(
    src: str,
    dst: Path,
    to: Literal["npz", "timm", "huggingface", "torchvision", "checkpoint"] = "checkpoint",
    heads: int | None = None,
    image_size: int | tuple[int, int] | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    raw: bool = False,
    gelu: Literal["tanh", "exact"] | None = None,
    norm_eps: float | None = None,
    pool: Literal["token", "gap"] | None = None,
    norm_after_pool: bool | None = None,
    resnet_code: Literal["official", "timm"] | None = None,
) -> None:
    """Convert weights to another layout, read them back, and compare bit by bit.

    Args:
        src: Run folder, whose best checkpoint is taken, or a local file or folder of any known layout, https address,
            or hf://owner/repo[/file].
        dst: What to make: a file (npz, torchvision, checkpoint) or a folder (timm, huggingface).
        to: Layout to write; a checkpoint is what validate, test and predict open with --ckpt_path, and export. It holds
            any net, timm one with learned positions. npz has no LayerNorm behind the pooling. huggingface and
            torchvision need a class token that the head reads, torchvision an exact GELU as well.
        heads: Number of attention heads, for a file that does not say it.
        image_size: Pixels per side, or (y, x), to fit the positions to; None: as they are.
        mean: Channel means of images in [0, 1], for a file that does not say them.
        std: Channel standard deviations, likewise.
        raw: Of a file with averaged weights, take those that were trained.
        gelu: Activation of the MLP, for a file that does not say it.
        norm_eps: Epsilon of every LayerNorm, likewise.
        pool: What the head reads, the class token or the mean of all patches, likewise.
        norm_after_pool: Whether the last LayerNorm comes after the pooling, likewise.
        resnet_code: Whose epsilons and padding a ResNet or a hybrid's stem has, likewise.
    """
    from vit_lightning.files import check_new
    from vit_lightning.models import NetConfig
    from vit_lightning.models.finite import check_finite
    from vit_lightning.runs.folders import checkpoint_behind, folder_of
    from vit_lightning.weights import load_net
    from vit_lightning.weights.interface import evaluation_of
    from vit_lightning.weights.save import check_ending, save

    check_ending(dst, to, ENDINGS)
    check_new(dst)
    stated = NetConfig(
        gelu=gelu, norm_eps=norm_eps, pool=pool, norm_after_pool=norm_after_pool, resnet_code=resnet_code
    )
    src = checkpoint_behind(src)
    net, report = load_net(src, heads=heads, image_size=image_size, raw=raw, stated=stated)
    check_finite(net.state_dict(), src)
    report.state_normalisation(mean, std, net.config.channels)
    if to in ("timm", "huggingface"):  # the layouts that say how images are brought to size
        report.evaluation = evaluation_of(None if "://" in src else folder_of(Path(src)))
    print(report)
    known = len(report.notes)
    figure = save(net, report, dst, to)
    for note in report.notes[known:]:
        print(f"warning  {note}")
    if report.class_names and to in NAMELESS:
        print(f"{to} holds no names of classes: who reads {dst} must know their order; --to checkpoint keeps them")
    print(f"{dst}: {to}, every tensor bit-identical when read back, outputs differ by {figure:.1e}")
