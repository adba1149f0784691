"""What is lost by heads and tokens, where the answer is known."""

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.inspection.ablation import ablate_heads, ablate_tokens, groups_of

WAYS = ("mean", "shuffle")


def some(count=5):
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("by", WAYS)
def test_equal_images_lose_nothing_since_a_mean_is_no_zero(random_net, by):
    images = some(1).repeat(4, 1, 1, 1)
    net = random_net(registers=2)
    heads = ablate_heads(net, images, by)
    assert heads.features.shape == (3, 2) and heads.features.abs().max() < 1e-6 and heads.changed.max() == 0
    for lost in ablate_tokens(net, images, by).values():
        assert lost.features.shape == (3,) and lost.features.abs().max() < 1e-6


@pytest.mark.parametrize("by", WAYS)
def test_a_head_that_is_not_read_is_lost_without_loss(random_net, by):
    net = random_net()
    with torch.no_grad():
        net.blocks[1].attention.out.weight[:, :16] = 0  # the first head of block 1
    lost = ablate_heads(net, some(), by).features
    assert lost[1, 0].abs() < 1e-9
    lost[1, 0] = 1
    assert (lost > 1e-7).all()


def test_the_loss_is_that_of_a_net_with_the_head_exchanged(random_net):
    """By hand: the mean of head 1 of block 2, the last."""
    net, images = random_net(pool="gap"), some(4)
    with torch.no_grad():
        outputs = []
        hook = net.blocks[2].attention.out.register_forward_pre_hook(lambda m, i: outputs.append(i[0]))
        whole = net.features(images)
        hook.remove()
        changed = outputs[0].clone()
        changed[..., 16:] = changed[..., 16:].mean(0)
        hook = net.blocks[2].attention.out.register_forward_pre_hook(lambda m, i: (changed,))
        features, logits = net.features(images), net(images)
        hook.remove()
        lost = ablate_heads(net, images, "mean", batch_size=2)
        expected = (1 - torch.cosine_similarity(features, whole)).mean()
        assert lost.features[2, 1].item() == pytest.approx(expected.item(), abs=1e-6)
        agree = (logits.argmax(1) != net(images).argmax(1)).float().mean()
        assert lost.changed[2, 1].item() == pytest.approx(agree.item())


def test_the_last_blocks_patches_are_not_read_by_a_class_token(random_net):
    net, images = random_net(registers=1), some()
    done = []
    lost = ablate_tokens(net, images, "shuffle", batch_size=2, advance=done.append)
    assert list(lost) == ["class token", "registers", "patches"] and done == [2, 3]  # none alone in its batch
    assert lost["patches"].features[-1].abs() < 1e-6 and lost["registers"].features[-1].abs() < 1e-6
    assert lost["class token"].features[-1] > 1e-3
    assert list(groups_of(random_net(pool="gap"))) == ["patches"]


def test_positions_that_every_layer_adds_are_added_once(random_net):
    net, images = random_net(pool="gap", position_at="every_layer_shared"), some(1).repeat(2, 1, 1, 1)
    assert ablate_heads(net, images, "mean").features.abs().max() < 1e-6


def test_one_image_is_too_few_and_a_net_without_classes_has_none_to_change(random_net):
    with pytest.raises(InputError, match="two images or more"):
        ablate_heads(random_net(), some(1), "mean")
    assert ablate_heads(random_net(classes=0), some(2), "mean").changed is None


@pytest.mark.parametrize("by", WAYS)
def test_the_loss_is_that_of_a_net_with_a_kind_of_token_exchanged(random_net, by):
    """By hand: the patches behind block 1 of 3; of a grid that is no square the patches are all of them."""
    net = random_net((16, 32), pool="gap", registers=1)
    images = torch.randn(4, 3, 16, 32, generator=torch.Generator().manual_seed(1))
    assert groups_of(net) == {"registers": slice(0, 1), "patches": slice(1, 9)}

    def exchange(module, inputs, tokens):
        patches = tokens[:, 1:]
        other = patches.mean(0).expand_as(patches) if by == "mean" else patches.roll(1, 0)
        return torch.cat([tokens[:, :1], other], 1)

    with torch.no_grad():
        whole, best = net.features(images), net(images).argmax(1)
        hook = net.blocks[1].register_forward_hook(exchange)
        features, other_best = net.features(images), net(images).argmax(1)
        hook.remove()
    lost = ablate_tokens(net, images, by)["patches"]
    expected = (1 - torch.cosine_similarity(features, whole)).mean()
    assert lost.features[1].item() == pytest.approx(expected.item(), abs=1e-6) and expected > 1e-4
    assert lost.changed[1].item() == (best != other_best).float().mean().item()
