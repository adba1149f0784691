"""Damaged, renamed and foreign files: one sentence or the very same net, never a traceback or another net."""

import json
import os
import pickle
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.save import save

FIELDS = {"width": 16, "depth": 2, "heads": 2, "mlp": 24, "patch": 4}
LAYOUTS = {
    "npz": {},
    "hybrid npz": {"stages": (1,), "patch": 1},
    "timm": {"gelu": "exact", "registers": 1, "layer_scale": 0.1},
    "huggingface": {"gelu": "exact"},
    "torchvision": {"gelu": "exact"},
    "checkpoint": {"gelu": "exact"},
    "safetensors": {},
}
CASES = 120


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """One tiny file or folder of every layout, and its net."""
    folder, made = tmp_path_factory.mktemp("originals"), {}
    for layout, fields in LAYOUTS.items():
        torch.manual_seed(0)
        net = build(NetConfig("Ti/16", **FIELDS | fields), 16, 3)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
        path = folder / layout.replace(" ", ".")
        save(net, Report("", "", class_names=["a", "b", "c"]), path, layout.split()[-1])
        made[layout] = path, net
    return made


def weights_file(path):
    return path / "model.safetensors" if path.is_dir() else path


def cut(path, draw):
    file = weights_file(path)
    os.truncate(file, int(draw.integers(file.stat().st_size)))


def flip(path, draw):
    """One bit of what describes the tensors; only npz has checksums over the numbers."""
    file = weights_file(path)
    content = bytearray(file.read_bytes())
    end = (
        len(content) if path.suffix == ".npz" or path.name.endswith("npz") else 8 + struct.unpack("<Q", content[:8])[0]
    )
    content[draw.integers(end)] ^= 1 << draw.integers(8)
    file.write_bytes(content)


def overwrite(path, draw):
    """A block of noise at the start or somewhere in the description."""
    file = weights_file(path)
    content = bytearray(file.read_bytes())
    start = int(draw.integers(200))
    content[start : start + 40] = draw.bytes(40)
    file.write_bytes(content)


def edit(path, draw):
    """A tensor is gone, has another name, other axes, another type or a stranger beside it."""
    file = weights_file(path)
    nested = None
    if file.name.endswith("npz"):
        tensors = {name: torch.from_numpy(array) for name, array in np.load(file).items()}
    elif path.is_dir():
        tensors = load_file(file)
    else:
        nested = torch.load(file, weights_only=True)
        tensors = nested.get("state_dict", nested)
    name = sorted(tensors)[draw.integers(len(tensors))]
    tensor = tensors.pop(name)
    kind = draw.integers(7)
    if kind == 1:
        tensors[name[:-1]] = tensor
    elif kind == 2:
        tensors[name.replace("1", "7", 1) + ("x" if "1" not in name else "")] = tensor
    elif kind == 3:
        tensors[name] = tensor[..., :-1].contiguous()
    elif kind == 4:
        tensors[name] = tensor[None].contiguous()
    elif kind == 5:
        tensors[name] = torch.cat([tensor, tensor])
    elif kind == 6:
        tensors |= {name: tensor, "stranger.weight": torch.zeros(2)}
    file.unlink()
    if file.name.endswith("npz"):
        with file.open("wb") as out:
            np.savez(out, **{key: value.numpy() for key, value in tensors.items()})
    elif path.is_dir():
        save_file(tensors, file, {"format": "pt"} | facts_of(path))
    else:
        torch.save(nested, file)


FACTS = {}


def facts_of(path):
    """The header that our own safetensors need."""
    return FACTS if path.name == "safetensors" else {}


def disturb(path, draw):
    """An entry of the JSON beside the tensors has another type."""
    file = path / "config.json"
    said = json.loads(file.read_text())
    name = sorted(said)[draw.integers(len(said))]
    said[name] = [None, "x", -1, [], {}, 10**9, [1, 2, 3], True, 0.5][draw.integers(9)]
    file.write_text(json.dumps(said))


def mangle(path, draw):
    """The JSON beside the tensors is cut off, or no object."""
    file = path / "config.json"
    file.write_text(["[]", "{", "", file.read_text()[: draw.integers(100)]][draw.integers(4)])


def damages(layout):
    kinds = [cut, overwrite, edit, edit]
    if layout in ("npz", "hybrid npz", "timm", "huggingface"):
        kinds.append(flip)
    if layout in ("timm", "huggingface"):
        kinds += [disturb, mangle]
    return kinds


def attempt(path, heads):
    """The net, or the sentence that refuses it."""
    try:
        return load_net(path, heads=heads, image_size=16)[0], ""
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damage_gives_one_sentence_or_the_same_net(layout, originals, tmp_path):
    original, net = originals[layout]
    if layout == "safetensors":
        from safetensors import safe_open

        with safe_open(original / "model.safetensors", "pt") as file:
            FACTS.update(file.metadata())
    refused = 0
    for case in range(CASES):
        draw = np.random.default_rng(case)
        path = tmp_path / str(case) / original.name
        path.parent.mkdir()
        (shutil.copytree if original.is_dir() else shutil.copy)(original, path)
        damage = damages(layout)[case % len(damages(layout))]
        damage(path, draw)
        loaded, sentence = attempt(path, heads=2 if layout == "torchvision" else None)
        if loaded is None:
            refused += 1
            assert re.fullmatch(r"[^\n]{20,400}\.", sentence), sentence
            continue
        if damage in (disturb, mangle):
            continue
        state = loaded.state_dict()
        assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items()), (case, damage)
        assert loaded.config.heads == net.config.heads
    assert refused > CASES // 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"<html>404</html>",
        b"PK\x03\x04",
        b"\x89PNG\r\n\x1a\n",
        b"\x80",
        bytes(100),
        b"x" * 1000,
        b"{}",
        b'"[]"' * 9,
    ],
)
@pytest.mark.parametrize("name", ["w.npz", "w.safetensors", "w.pth", "w.ckpt", "w"])
def test_foreign_content(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"^[^\n]+\.$"):
        load_net(tmp_path / name)


@pytest.mark.parametrize("name", ["w.npz", "w.safetensors", "w.pth", "w.jpg"])
@pytest.mark.parametrize("layout", ["npz", "torchvision", "checkpoint"])
def test_wrong_names_do_not_matter(layout, name, originals, tmp_path):
    original, net = originals[layout]
    shutil.copy(original, tmp_path / name)
    loaded, _ = load_net(tmp_path / name, heads=2)
    assert torch.equal(loaded.head.weight, net.head.weight)


class Attack:
    """Runs code when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_no_code_runs(tmp_path):
    attack = Attack(tmp_path / "ran")
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps({"state_dict": attack}))
    torch.save({"state_dict": {"patch_embed.proj.weight": attack}}, tmp_path / "w.pth")
    np.savez(tmp_path / "w.npz", **{"embedding/kernel": np.array([attack], dtype=object)})
    for name in ("plain.pkl", "w.pth", "w.npz"):
        with pytest.raises(InputError, match=r"Python objects|cannot be read"):
            load_net(tmp_path / name)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content", [[1, 2], {"a": 1}, {"state_dict": {}}, torch.zeros(3), {"patch_embed.proj.weight": 3}]
)
def test_pickles_without_a_net(content, tmp_path):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(InputError, match=r"^[^\n]+\.$"):
        load_net(tmp_path / "w.pth")


def test_net_of_somebody_else(tmp_path):
    torch.save({"fc.weight": torch.zeros(3, 3)}, tmp_path / "w.pth")
    with pytest.raises(InputError, match="no known layout"):
        load_net(tmp_path / "w.pth")


def test_weights_damaged_inside_a_torch_file_are_not_taken(tmp_path):
    """Its end is whole, so that it opens; torch itself looks at no sum."""
    path = tmp_path / "net.pth"
    torch.save({"head.weight": torch.ones(50, 100)}, path)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 100] = bytes(100)
    path.write_bytes(content)
    assert not torch.equal(torch.load(path)["head.weight"], torch.ones(50, 100))
    with pytest.raises(InputError, match="is damaged: it does not hold what was written"):
        load_net(path)
