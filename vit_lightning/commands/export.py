"""The verb `export`: a trained net for other programs, proven and described."""

from pathlib import Path
from typing import Literal

ENDINGS = {".onnx": ("onnx",), ".pt2": ("torch_export",), ".safetensors": ("safetensors", "huggingface")}
"""Formats that a name promises by its ending."""


def export(
    ckpt: str,
    dst: Path,
    to: Literal["onnx", "torch_export", "safetensors", "huggingface"] = "onnx",
    heads: int | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    raw: bool = False,
    gelu: Literal["tanh", "exact"] | None = None,
    norm_eps: float | None = None,
    pool: Literal["token", "gap"] | None = None,
    norm_after_pool: bool | None = None,
    resnet_code: Literal["official", "timm"] | None = None,
    licence: str = "other",
) -> None:
    """Export a net with its normalisation and class names, check what it computes, and write its model card.

    Args:
        ckpt: Run folder, whose best checkpoint is taken, or a checkpoint, or any weights that convert reads.
        dst: Folder to make; it holds the model and a README.md.
        to: onnx and torch_export take images in [0, 1], any batch, and are run at batch 1 and 3. They normalise inside,
            and their metadata say what goes in and comes out. safetensors and huggingface are read back.
        heads: Number of attention heads, for a file that does not say it.
        mean: Channel means of images in [0, 1], for a file that does not say them.
        std: Channel standard deviations, likewise.
        raw: Of a file with averaged weights, take those that were trained.
        gelu: Activation of the MLP, for a file that does not say it.
        norm_eps: Epsilon of every LayerNorm, likewise.
        pool: What the head reads, the class token or the mean of all patches, likewise.
        norm_after_pool: Whether the last LayerNorm comes after the pooling, likewise.
        resnet_code: Whose epsilons and padding a ResNet or a hybrid's stem has, likewise.
        licence: Identifier for the model card.
    """
    from vit_lightning.files import check_new, written
    from vit_lightning.models import NetConfig
    from vit_lightning.models.finite import check_finite
    from vit_lightning.runs.folders import checkpoint_behind, folder_of
    from vit_lightning.weights import load_net
    from vit_lightning.weights.card import check_licence, write_card
    from vit_lightning.weights.deploy import to_onnx, to_torch_export
    from vit_lightning.weights.interface import evaluation_of
    from vit_lightning.weights.save import check_ending, save
    from vit_lightning.weights.tested import scores_of_test

    check_licence(licence)
    check_ending(dst, to, ENDINGS)
    check_new(dst)
    stated = NetConfig(
        gelu=gelu, norm_eps=norm_eps, pool=pool, norm_after_pool=norm_after_pool, resnet_code=resnet_code
    )
    ckpt = checkpoint_behind(ckpt)
    net, report = load_net(ckpt, heads=heads, raw=raw, stated=stated)
    check_finite(net.state_dict(), ckpt)
    report.state_normalisation(mean, std, net.config.channels)
    evaluation = evaluation_of(None if "://" in ckpt else folder_of(Path(ckpt)))
    if "://" not in ckpt and (scores := scores_of_test(Path(ckpt))):
        report.training["metrics"] = report.training.get("metrics", {}) | scores
    print(report)
    with written(dst) as place:
        if to == "onnx":
            figure = to_onnx(net, report, place, evaluation)
        elif to == "torch_export":
            figure = to_torch_export(net, report, place, evaluation)
        else:
            report.evaluation = evaluation
            figure = save(net, report, place, to)
        write_card(net, report, to, licence, figure, place / "README.md", evaluation)
    print(f"wrote    {dst}: {to}, outputs differ by {figure:.1e}")
