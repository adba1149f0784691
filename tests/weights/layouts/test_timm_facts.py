"""What names, shapes and config.json tell of a net of timm's family, from files made by hand."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.weights.archive import Stored
from vit_lightning.weights.layouts.timm import read

MEAN, STD = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]


def tensors(
    width: int = 192, depth: int = 2, rows: int = 17, patch: int = 8, classes: int = 3, gated: bool = False, **more
) -> dict[str, torch.Tensor]:
    """A net of 4 x 4 patches and a class token; `more` adds tensors, and takes those off that are None."""
    mlp = 4 * width
    found = {
        "cls_token": torch.zeros(1, 1, width),
        "pos_embed": torch.arange(float(rows)).reshape(1, rows, 1).repeat(1, 1, width),
        "patch_embed.proj.weight": torch.zeros(width, 3, patch, patch),
        "patch_embed.proj.bias": torch.zeros(width),
        "norm.weight": torch.zeros(width),
        "norm.bias": torch.zeros(width),
        "head.weight": torch.zeros(classes, width),
        "head.bias": torch.zeros(classes),
    }
    for block in (f"blocks.{number}" for number in range(depth)):
        found |= {
            f"{block}.attn.qkv.weight": torch.zeros(3 * width, width),
            f"{block}.attn.qkv.bias": torch.zeros(3 * width),
            f"{block}.mlp.fc1.weight": torch.zeros(2 * mlp if gated else mlp, width),
            f"{block}.mlp.fc2.weight": torch.zeros(width, mlp),
        }
    found |= {name.replace("__", "."): tensor for name, tensor in more.items()}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def opened(given: dict[str, torch.Tensor], said: dict | None = None, heads: int | None = None, size=None):
    stored = {name: Stored(tuple(tensor.shape), lambda tensor=tensor: tensor) for name, tensor in given.items()}
    return read(SimpleNamespace(stored=stored, json=lambda name: said or {}), heads, size)


def said(architecture: str = "vit_tiny_patch16_224", **facts) -> dict:
    return {"architecture": architecture} | facts


def test_mean_and_std_are_each_their_own():
    card = {"mean": MEAN, "std": STD, "input_size": [3, 32, 32]}
    found = opened(tensors(), said(pretrained_cfg=card))
    assert (found.mean, found.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    grey = opened(tensors(), said(pretrained_cfg=card | {"mean": [0.5], "std": [0.5]}))
    assert (grey.mean, grey.std) == (None, None)  # of another number of channels
    assert (found.notes, found.assumed) == ([], ())


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        ({"label_names": ["c", "a", "b"]}, ["c", "a", "b"]),
        ({"pretrained_cfg": {"label_names": ["b", "c", "a"]}}, ["b", "c", "a"]),
        ({"label_names": ["c", "a", "b"], "pretrained_cfg": {"label_names": ["x", "y", "z"]}}, ["c", "a", "b"]),
        ({"label_names": ["a", "b"]}, []),
        ({"label_names": "abc"}, []),
        ({}, []),
    ],
)
def test_names_of_the_classes_stand_in_the_config_or_on_the_card(facts, names):
    assert opened(tensors(), said(**facts)).class_names == names


@pytest.mark.parametrize(
    ("width", "architecture", "arguments", "given", "heads"),
    [
        (192, "vit_x", {}, None, 3),
        (768, "vit_x", {}, None, 12),
        (768, "vit_base_patch16_gap_224", {}, None, 16),
        (768, "vit_base_patch16_gap_224", {"num_heads": 8}, None, 8),
        (1536, "vit_giantopt_patch16_siglip_256", {}, None, 16),
        (1536, "vit_giant_patch14_dinov2", {}, None, 24),
        (256, "vit_x", {}, None, 4),
        (832, "vit_x", {}, None, 13),
        (192, "vit_x", {"num_heads": 6}, None, 6),
        (200, "vit_x", {}, 5, 5),
    ],
)
def test_heads_are_those_of_the_arguments_then_of_the_architecture_then_of_the_width(
    width, architecture, arguments, given, heads
):
    found = opened(tensors(width, depth=1), said(architecture, model_args=arguments), heads=given)
    assert found.config.heads == heads and found.notes == []


@pytest.mark.parametrize(("heads", "noted"), [(None, True), (3, False)])
def test_heads_that_nobody_states_are_noted(heads, noted):
    notes = opened(tensors(), heads=heads).notes
    said = "the file does not say its attention heads: as published nets of width 192 have"
    assert notes == ([said] if noted else [])


@pytest.mark.parametrize(
    ("size", "rows", "cropped"),
    [((32, 32), 17, False), ((38, 32), 17, True), ((32, 33), 17, True), ((39, 25), 13, True), ((16, 64), 17, False)],
)
def test_one_side_that_the_patch_does_not_divide_is_enough_to_crop(size, rows, cropped):
    found = opened(tensors(rows=rows), said(model_args={"img_size": list(size)}))
    assert found.image_size == size and found.config.crop_to_patch == cropped


@pytest.mark.parametrize(
    ("more", "gated", "unsaid"),
    [
        ({}, False, ("gelu", "norm_eps", "pool", "norm_after_pool")),
        ({}, True, ("norm_eps", "pool", "norm_after_pool")),
        ({"attn_pool__latent": torch.zeros(1, 1, 192)}, False, ("gelu", "norm_eps")),
        ({"attn_pool__latent": torch.zeros(1, 1, 192)}, True, ("norm_eps",)),
    ],
)
def test_what_no_tensor_shows_is_assumed_without_a_config(more, gated, unsaid):
    found = opened(tensors(gated=gated, **more))
    assert found.assumed == unsaid and found.config.swiglu == gated and found.config.mlp == 768
    assert opened(tensors(gated=gated, **more), said()).assumed == ()


@pytest.mark.parametrize(
    ("more", "facts", "pool"),
    [
        ({}, None, "token"),
        ({"fc_norm__weight": torch.zeros(192)}, None, "gap"),
        ({"cls_token": None, "rows": 16}, None, "gap"),
        ({}, said(global_pool="avg"), "gap"),
        ({"fc_norm__weight": torch.zeros(192)}, said(global_pool="token"), "token"),
        ({}, said(global_pool="avg", model_args={"global_pool": "token"}), "token"),
        ({"attn_pool__latent": torch.zeros(1, 1, 192)}, said(global_pool="token"), "map"),
    ],
)
def test_the_head_reads_what_config_or_tensors_say(more, facts, pool):
    found = opened(tensors(**more), facts)
    assert found.config.pool == pool and found.config.class_token == ("cls_token" not in more)
    assert found.config.norm_after_pool == ("fc_norm__weight" in more)


@pytest.mark.parametrize(
    ("architecture", "act", "gelu"),
    [
        ("vit_x", None, "exact"),
        ("vit_x", "gelu", "exact"),
        ("vit_x", "gelu_tanh", "tanh"),
        ("vit_base_patch32_siglip_256", None, "tanh"),
        ("vit_base_patch32_siglip_256", "gelu", "exact"),
        ("vit_base_patch16_siglip_256", None, "exact"),
        ("vit_so400m_patch16_siglip_gap_512", None, "tanh"),
        ("vit_large_patch16_siglip_512", None, "tanh"),
        ("vit_large_patch16_siglip_gap_512", None, "tanh"),
        ("vit_large_patch16_siglip_384", None, "exact"),
    ],
)
def test_gelu_is_what_is_said_or_what_the_architecture_has(architecture, act, gelu):
    found = opened(tensors(), said(architecture, model_args={"act_layer": act}))
    assert found.config.gelu == gelu


def test_a_norm_before_the_blocks_is_clip_s_and_has_its_epsilon():
    clip = opened(
        tensors(norm_pre__weight=torch.zeros(192), norm_pre__bias=torch.zeros(192), patch_embed__proj__bias=None)
    )
    plain = opened(tensors())
    assert (clip.config.embed_norm, clip.config.norm_eps) == (True, 1e-5)
    assert (plain.config.embed_norm, plain.config.norm_eps, plain.config.layer_scale) == (False, 1e-6, 0.0)
    assert "no patch_embed.proj.bias in the file: zeros, which change nothing" in clip.notes
    assert clip.stored["patch_embed.proj.bias"].shape == (192,)
    scaled = opened(tensors(**{f"blocks__{n}__ls1__gamma": torch.ones(192) for n in range(2)}))
    assert scaled.config.layer_scale == 1e-5


def test_every_block_without_a_bias_gets_one_of_zeros():
    bare = {f"blocks__{number}__attn__qkv__bias": None for number in range(3)}
    found = opened(tensors(depth=3, **bare))
    assert all(found.stored[f"blocks.{number}.attn.qkv.bias"].shape == (576,) for number in range(3))
    assert found.notes[-1] == "no blocks.0.attn.qkv.bias in the file: zeros, which change nothing"


@pytest.mark.parametrize(
    ("rows", "token", "kept", "moved"),
    [
        (19, True, [0, *range(3, 19)], [1.0, 2.0]),  # token, two registers, 16 patches
        (18, False, list(range(2, 18)), [0.0, 1.0]),
        (17, True, list(range(17)), [0.0, 0.0]),
        (16, True, [None, *range(16)], [0.0, 0.0]),
        (16, False, list(range(16)), [0.0, 0.0]),
    ],
)
def test_positions_of_registers_go_to_them_and_the_table_covers_the_token(rows, token, kept, moved):
    registers = torch.tensor([10.0, 20.0]).reshape(1, 2, 1).repeat(1, 1, 192)
    more = {"reg_token": registers} | ({} if token else {"cls_token": None})
    found = opened(tensors(rows=rows, **more), said(model_args={"img_size": 32}))
    table, held = found.stored["pos_embed"], found.stored["reg_token"]
    assert table.shape == tuple(table.read().shape) == (1, len(kept), 192)
    assert table.read()[0, :, 5].tolist() == [0.0 if row is None else float(row) for row in kept]
    assert held.read()[0, :, 5].tolist() == [10 + moved[0], 20 + moved[1]]
    assert found.config.registers == 2 and found.image_size == (32, 32)


def test_what_lies_beside_the_net_is_named_by_its_prefix():
    given = {f"backbone.{name}": tensor for name, tensor in tensors().items()}
    given |= {
        "other.x": torch.zeros(1),
        "backbone.decoder_embed.weight": torch.zeros(1),
        "backbone.mask_token": torch.zeros(1),
    }
    found = opened(given)
    assert found.dropped == {
        "other.x": "beside the net 'backbone'",
        "decoder_embed.weight": "only for masked pre-training",
        "mask_token": "only for masked pre-training",
    }
    assert "pos_embed" in found.stored and found.num_classes == 3


def test_a_head_that_is_not_there_has_no_classes_and_patches_are_square():
    assert opened(tensors(head__weight=None, head__bias=None)).num_classes == 0
    with pytest.raises(InputError, match="patches have 8x4 pixels: only square"):
        opened(tensors(patch_embed__proj__weight=torch.zeros(192, 3, 8, 4)))


def test_the_size_of_the_arguments_wins_over_that_of_the_card():
    """25 rows are those of 4 x 6 patches and a token, or of 5 x 5 patches alone."""
    card = {"input_size": [3, 40, 40]}
    both = said(model_args={"img_size": [32, 48]}, pretrained_cfg=card)
    assert opened(tensors(rows=25), both).image_size == (32, 48)
    assert opened(tensors(rows=25), said(pretrained_cfg=card)).image_size == (40, 40)
