"""What is lost is that of all images together, however they are batched."""

import pytest
import torch

from vit_lightning.inspection.ablation import ablate_heads, ablate_tokens


def some(count: int) -> torch.Tensor:
    """Images so unlike each other that batches of them have other means than all."""
    images = torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return images * torch.arange(1.0, count + 1)[:, None, None, None]


def test_means_and_shares_are_over_all_images_of_unequal_batches(random_net):
    """Seven images come as 2, 2 and 3, or as 4 and 3, or at once."""
    net, images = random_net(16, registers=1), some(7)
    whole = ablate_heads(net, images, "mean", batch_size=7)
    assert whole.features.min() > 1e-4 and 0 < whole.changed.sum() < 6
    tokens = ablate_tokens(net, images, "mean", batch_size=7)
    for size in (2, 4):
        parts = ablate_heads(net, images, "mean", batch_size=size)
        torch.testing.assert_close(parts.features, whole.features, rtol=1e-4, atol=1e-6)
        assert parts.changed.tolist() == whole.changed.tolist()
        for name, lost in ablate_tokens(net, images, "mean", batch_size=size).items():
            torch.testing.assert_close(lost.features, tokens[name].features, rtol=1e-4, atol=1e-6)
            assert lost.changed.tolist() == tokens[name].changed.tolist()


@pytest.mark.parametrize(("count", "size", "batches"), [(5, 1, [2, 3]), (4, 3, [4]), (6, 2, [2, 2, 2]), (3, 16, [3])])
def test_no_image_is_alone_in_its_batch(random_net, count, size, batches):
    done: list[int] = []
    ablate_heads(random_net(16), some(count), "shuffle", batch_size=size, advance=done.append)
    assert done == batches


def test_an_image_gets_what_the_image_before_it_in_its_batch_has(random_net):
    """The last block's heads, all exchanged one by one, by hand in batches of two and three."""
    net, images = random_net(16), some(5)
    lost = ablate_heads(net, images, "shuffle", batch_size=2)
    out, seen = net.blocks[2].attention.out, []
    with torch.no_grad():
        hook = out.register_forward_pre_hook(lambda m, i: seen.append(i[0]))
        whole = net.features(images)
        hook.remove()
        before = seen[0][[1, 0, 4, 2, 3]]
        for head in range(2):
            part = slice(16 * head, 16 * head + 16)
            changed = seen[0].clone()
            changed[..., part] = before[..., part]
            hook = out.register_forward_pre_hook(lambda m, i, changed=changed: (changed,))
            features = net.features(images)
            hook.remove()
            expected = (1 - torch.cosine_similarity(features, whole)).mean().item()
            assert lost.features[2, head].item() == pytest.approx(expected, rel=1e-3, abs=1e-6)
