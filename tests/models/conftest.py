import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from einops import rearrange
from torch import Tensor, nn

from vit_lightning.models import NetConfig, build


@pytest.fixture
def tiny() -> Callable[..., nn.Module]:
    """Makes a tiny net in eval mode whose parameters are all random and far from zero."""

    def make(image_size: int | tuple[int, int] = (8, 12), num_classes: int = 5, seed: int = 0, **fields) -> nn.Module:
        torch.manual_seed(seed)
        config = {"patch": 4, "width": 16, "depth": 2, "heads": 2, "mlp": 24} | fields
        net = build(NetConfig("Ti/16", **config), image_size, num_classes).eval()
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                parameter.normal_(1.0 if "norm" in name and "weight" in name else 0.0, 0.3)
        return net

    return make


@pytest.fixture
def assert_one_graph() -> Callable[[nn.Module, Tensor, Tensor], None]:
    """Checks that a net compiles to one graph that serves two batches of different size."""

    def check(net: nn.Module, *batches: Tensor) -> None:
        net(batches[0])  # einops notes the kinds of tensors it has met, which the compiler would guard
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled = torch.compile(net, backend="eager", fullgraph=True)
        for images in batches:
            torch._dynamo.mark_dynamic(images, 0)
            assert (compiled(images) - net(images)).abs().max() < 1e-5
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
        torch._dynamo.reset()

    return check


@pytest.fixture
def golden_case(golden: Path) -> Callable[[str], SimpleNamespace]:
    """Reads a case: `config` fields, `arrays` of its npz, `images` b c y x, `expected` arrays, `tolerance`s."""

    def read(name: str) -> SimpleNamespace:
        case = json.loads((golden / name / "case.json").read_text())
        model, images = case["model"], torch.from_numpy(np.load(golden / name / "input.npy"))
        names = {"width": "width", "depth": "depth", "heads": "heads", "mlp": "mlp_dim", "patch": "patch_size"}
        npz = golden / name / "weights.npz"
        return SimpleNamespace(
            model=model,
            config={ours: model[theirs] for ours, theirs in names.items() if theirs in model}
            | {"representation": model.get("representation_size") or 0},
            arrays=dict(np.load(npz)) if npz.exists() else None,
            images=rearrange(images, "b y x c -> b c y x") if case["input"]["axes"] == "NHWC" else images,
            expected=dict(np.load(golden / name / "expected.npz")),
            tolerance={key: value for key, value in case["tolerance"].items() if isinstance(value, float)},
        )

    return read


@pytest.fixture
def official() -> Callable[[Mapping[str, np.ndarray]], dict[str, Tensor]]:
    """Maps the arrays of an official plain ViT (published or big_vision names) to our parameters."""

    def dense(arrays: Mapping[str, Tensor], ours: str, theirs: str, pattern: str = "i o -> o i") -> dict[str, Tensor]:
        kernel, bias = arrays[f"{theirs}/kernel"], arrays[f"{theirs}/bias"]
        return {f"{ours}.weight": rearrange(kernel, pattern), f"{ours}.bias": bias.flatten()}

    def norm(arrays: Mapping[str, Tensor], ours: str, theirs: str) -> dict[str, Tensor]:
        return {
            f"{ours}.weight": arrays[f"{theirs}/scale"].flatten(),
            f"{ours}.bias": arrays[f"{theirs}/bias"].flatten(),
        }

    def block(arrays: Mapping[str, Tensor], ours: str, theirs: str) -> dict[str, Tensor]:
        children = sorted({name[len(theirs) :].split("/")[0] for name in arrays if name.startswith(theirs)})
        norm1, norm2 = (theirs + child for child in children if child.startswith("LayerNorm"))
        mlp, attention = (
            next(theirs + child for child in children if child.startswith(kind)) for kind in ("Mlp", "MultiHead")
        )
        parts = [dense(arrays, "part", f"{attention}/{part}", "i h k -> (h k) i") for part in ("query", "key", "value")]
        qkv = {
            f"{ours}.attention.qkv.{kind}": torch.cat([p[f"part.{kind}"] for p in parts]) for kind in ("weight", "bias")
        }
        return (
            qkv
            | norm(arrays, f"{ours}.norm1", norm1)
            | norm(arrays, f"{ours}.norm2", norm2)
            | dense(arrays, f"{ours}.attention.out", f"{attention}/out", "h k o -> o (h k)")
            | dense(arrays, f"{ours}.mlp.up", f"{mlp}/Dense_0")
            | dense(arrays, f"{ours}.mlp.down", f"{mlp}/Dense_1")
        )

    def state(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        arrays = {name.removeprefix("params/"): torch.from_numpy(array) for name, array in arrays.items()}
        depth = len({name.split("/")[1] for name in arrays if "encoderblock" in name})
        result = {"class_token": arrays["cls"]}
        result |= dense(arrays, "patches.proj", "embedding", "p q c d -> d (p q c)")
        result |= norm(arrays, "norm", "Transformer/encoder_norm") | dense(arrays, "head", "head")
        for i in range(depth):
            result |= block(arrays, f"blocks.{i}", f"Transformer/encoderblock_{i}/")
        if "pre_logits/kernel" in arrays:
            result |= dense(arrays, "representation", "pre_logits")
        if "pos_embedding" in arrays:  # big_vision: the class token has no position
            table = arrays["pos_embedding"]
            result["position.table"] = torch.cat([torch.zeros_like(table[:, :1]), table], dim=1)
        else:
            result["position.table"] = arrays["Transformer/posembed_input/pos_embedding"]
        return result

    return state
