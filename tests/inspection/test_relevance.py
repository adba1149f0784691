"""Relevance against automatic differentiation, and what it must be where the answer is known."""

import pytest
import torch
from einops import rearrange

from vit_lightning.inspection.attention import reads_of, row_read
from vit_lightning.inspection.relevance import _direction, gradient_free_relevance, gradient_relevance


def explicit_logits(net, images):
    """Logits of a net by explicit attention, and that attention, in one graph."""
    tokens, attention = net.place(net.embed(images)), []
    for block in net.blocks:
        normed = block.norm1(tokens)
        weights = block.attention.weights(normed)
        attention.append(weights)
        values = rearrange(block.attention.qkv(normed), "b n (three h k) -> three b h n k", three=3, h=2)[2]
        mixed = rearrange(weights @ values, "b h n k -> b n (h k)")
        tokens = tokens + block.branch(block.attention.out(mixed), block.scale1)
        tokens = tokens + block.branch(block.mlp(block.norm2(tokens)), block.scale2)
    return net.head(net.read(net.norm(tokens))), attention


@pytest.mark.parametrize(
    "fields",
    [{}, {"registers": 2, "layer_scale": 0.5}, {"pool": "gap"}, {"pool": "map"}, {"pool": "gap", "attention": "axial"}],
    ids=str,
)
def test_gradients_are_those_of_an_explicit_net(random_net, fields):
    net, images, classes = random_net(**fields), torch.randn(2, 3, 32, 32), torch.tensor([2, 0])
    logits, attention = explicit_logits(net, images)
    torch.testing.assert_close(logits, net(images), atol=1e-5, rtol=0)
    gradients = torch.autograd.grad(logits[0, 2] + logits[1, 0], attention)
    total = torch.eye(attention[0].shape[-1]).repeat(2, 1, 1)
    for weights, gradient in zip(attention, gradients, strict=True):
        total = total + (weights * gradient).clamp(min=0).mean(1) @ total
    expected = row_read(total - torch.eye(total.shape[-1]), net.grid, net.num_prefix_tokens, reads_of(net.config))
    found = gradient_relevance(net, images, classes)
    assert (found >= -1e-6).all() and found.shape == (2, 4, 4)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert not net.blocks[0].attention.out._forward_pre_hooks and not net.blocks[0].attention.qkv._forward_hooks
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize("fields", [{}, {"pool": "gap"}], ids=str)
def test_a_net_in_half_precision_gives_nearly_the_same(random_net, fields):
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    classes = torch.tensor([2, 0])
    for function in (gradient_relevance, gradient_free_relevance):
        net = random_net(**fields)
        whole, half = function(net, images, classes), function(net.bfloat16(), images.bfloat16(), classes)
        assert torch.corrcoef(torch.stack([whole.flatten(), half.float().flatten()]))[0, 1] > 0.9


def test_gradients_within_inference_mode(random_net):
    net, images = random_net(), torch.randn(2, 3, 32, 32)
    wanted = gradient_relevance(net, images, torch.tensor([1, 1]))
    with torch.inference_mode():
        found = gradient_relevance(net, images * 1.0, torch.tensor([1, 1]) * 1)
    torch.testing.assert_close(found, wanted)


def test_a_mean_over_patches_is_the_mean_of_their_logits(random_net):
    net, images, classes = random_net(pool="gap", registers=1), torch.randn(2, 3, 32, 32), torch.tensor([0, 1])
    with torch.no_grad():
        maps, logits = gradient_free_relevance(net, images, classes), net(images)
    assert maps.shape == (2, 4, 4)
    torch.testing.assert_close(maps.mean((1, 2)), logits[[0, 1], classes], atol=1e-5, rtol=0)


@pytest.mark.parametrize("fields", [{"pool": "token_and_gap"}, {"pool": "map"}, {"pool": "gap"}], ids=str)
def test_the_head_reads_each_patch_alone(random_net, fields):
    net, images = random_net(representation=8, **fields), torch.randn(1, 3, 32, 32)
    prefix = net.num_prefix_tokens
    with torch.no_grad():
        tokens = net.tokens(images)
        found = gradient_free_relevance(net, images, torch.tensor([1]))
        alone = torch.cat([tokens[:, :prefix], tokens[:, prefix + 5 : prefix + 6]], 1)
        torch.testing.assert_close(found[0, 1, 1], net.head(net.read(alone))[0, 1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("fields", [{}, {"registers": 2, "layer_scale": 0.5}, {"position": "relative"}], ids=str)
def test_a_class_tokens_logit_is_the_sum_of_what_patches_add_and_the_rest(random_net, fields):
    """Without MLPs: the token itself, the other prefix tokens, biases and the patches make the whole logit."""
    net, images, wanted = random_net(**fields), torch.randn(1, 3, 32, 32), torch.tensor([2])
    prefix = net.num_prefix_tokens
    with torch.no_grad():
        for block in net.blocks:
            block.mlp.down.weight.zero_()
            block.mlp.down.bias.zero_()
        found = gradient_free_relevance(net, images, wanted)
        tokens = net.place(net.embed(images))
        rest = tokens[:, 0]
        for block in net.blocks:
            normed, part = block.norm1(tokens), block.attention
            values = rearrange(part.qkv(normed), "b n (three h k) -> three b h n k", three=3, h=2)[2]
            mixed = part.weights(normed)[:, :, :1, :prefix] @ values[:, :, :prefix]
            rest = rest + block.branch(part.out(rearrange(mixed, "b h n k -> b n (h k)"))[:, 0], block.scale1)
            tokens = block(tokens)
        last = tokens[:, 0]
        scale = net.norm.weight / (last.var(-1, correction=0, keepdim=True) + net.norm.eps).sqrt()
        direction = net.head.weight[2] * scale
        said_by_rest = ((rest - rest.mean()) * direction).sum() + net.head.weight[2] @ net.norm.bias + net.head.bias[2]
        torch.testing.assert_close(found.sum() + said_by_rest, net(images)[0, 2], atol=1e-4, rtol=1e-4)


def test_through_a_tanh_layer_the_direction_is_the_gradient(random_net):
    net, images, wanted = random_net(representation=8), torch.randn(2, 3, 32, 32), torch.tensor([2, 0])
    tokens = net.tokens(images).detach().requires_grad_()
    score = net.head(net.read(tokens)).gather(1, wanted[:, None]).sum()
    gradient = torch.autograd.grad(score, tokens)[0][:, 0]
    with torch.no_grad():
        torch.testing.assert_close(_direction(net, tokens, wanted), gradient, atol=1e-5, rtol=1e-4)
