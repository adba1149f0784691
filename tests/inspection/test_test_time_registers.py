"""A neuron that writes artefacts is found, and writes into a register instead."""

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.inspection.observation import observe
from vit_lightning.inspection.test_time_registers import Neuron, register_neurons, with_test_time_registers

NUMBER = 7


def storing(random_net, **fields):
    """A net whose neuron 7 of block 1 answers to a white patch, and writes it a large norm."""
    net = random_net(**{"position": "sincos_2d", "pool": "gap"} | fields)
    with torch.no_grad():
        net.patches.proj.weight.zero_()
        net.patches.proj.weight[0] = 1 / 64
        net.patches.proj.bias.zero_()
        for block in net.blocks:
            block.attention.out.weight.zero_()
            block.attention.out.bias.zero_()
            block.mlp.down.weight.mul_(0.01)
        mlp = net.blocks[1].mlp
        net.blocks[1].norm2.weight.fill_(1)
        net.blocks[1].norm2.bias.zero_()
        mlp.up.weight[NUMBER] = 0
        mlp.up.weight[NUMBER, 0] = 4
        mlp.up.bias[NUMBER] = -10
        mlp.down.weight[:, NUMBER] = 20
    return net


def images():
    given = torch.zeros(2, 3, 32, 32)
    given[:, :, 8:16, 16:24] = 1  # row 1, column 2
    return given


@pytest.mark.parametrize("registers", [0, 2])
def test_the_remedy_moves_the_artefact_into_the_register(random_net, registers):
    net = storing(random_net, registers=registers)
    norms = observe(net, images()).norms
    assert norms[-1].argmax(1).tolist() == [6, 6]
    threshold = 2 * norms[-1].median().item()
    assert (norms[-1] > threshold).sum() == 2 and not (norms[0] > 2 * norms[0].median()).any()
    neurons = register_neurons(net, [images()], threshold, 1, count=1)
    assert neurons == [Neuron(1, NUMBER)]
    mended = with_test_time_registers(net, neurons)
    after = observe(mended, images())
    assert mended.num_prefix_tokens == net.num_prefix_tokens + 1
    assert not (after.norms[-1] > threshold).any()
    others = [place for place in range(16) if place != 6]
    torch.testing.assert_close(after.norms[-1][:, others], norms[-1][:, others], rtol=0.05, atol=0.5)
    assert not net.blocks[1].mlp.activation._forward_hooks and net.config.registers == registers


def test_without_neurons_the_copy_is_the_net_with_a_register_that_is_empty(random_net):
    net = random_net(registers=1)
    with torch.no_grad():
        copy = with_test_time_registers(net, [])
        torch.testing.assert_close(copy.registers[:, :1], net.registers)
        assert copy.registers[:, 1].abs().max() == 0 and copy(torch.randn(1, 3, 32, 32)).shape == (1, 3)


def test_images_without_artefacts_name_no_neuron(random_net):
    with pytest.raises(InputError, match="no patch of these images is an artefact"):
        register_neurons(random_net(), [images()], 1e9, 2)


@pytest.mark.parametrize("fields", [{"position": "relative"}, {"attention": "axial"}])
def test_some_nets_have_no_place_for_registers(random_net, fields):
    with pytest.raises(InputError, match="registers need attention among all tokens"):
        with_test_time_registers(random_net(pool="gap", **fields), [])


def test_neurons_come_by_falling_difference_over_all_batches(random_net):
    """By hand: mean activation at artefacts less that elsewhere, of the blocks up to one."""
    net, batches = random_net(registers=1), torch.randn(2, 3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    norms = torch.stack([observe(net, batch).norms[-1] for batch in batches])
    threshold = norms.quantile(0.8).item()
    activations: dict[int, list] = {0: [], 1: []}
    for layer, seen in activations.items():
        hook = net.blocks[layer].mlp.activation.register_forward_hook(lambda m, i, o, seen=seen: seen.append(o))
        for batch in batches:
            net.encode(net.embed(batch))
        hook.remove()
    high = norms > threshold
    stacked = [torch.stack(seen)[:, :, net.num_prefix_tokens :].abs() for seen in activations.values()]
    difference = torch.cat([each[high].mean(0) - each[~high].mean(0) for each in stacked])
    expected = [Neuron(place // 48, place % 48) for place in difference.topk(5).indices.tolist()]
    assert register_neurons(net, list(batches), threshold, 1, count=5) == expected


def test_a_register_takes_the_largest_of_each_neuron_and_patches_none(random_net):
    net = random_net(registers=1)
    mended = with_test_time_registers(net, [Neuron(0, 3), Neuron(0, 9)], registers=2)
    moved = mended.blocks[0].mlp.activation
    given = torch.randn(2, 2 + 2 + 16, 48)
    found = moved._forward_hooks[next(iter(moved._forward_hooks))](moved, (), given)
    expected = given.clone()
    expected[:, 2:4, [3, 9]] = given[:, 4:, [3, 9]].amax(1, keepdim=True).expand(2, 2, 2)
    expected[:, 4:, [3, 9]] = 0
    assert torch.equal(found, expected) and not mended.blocks[1].mlp.activation._forward_hooks
