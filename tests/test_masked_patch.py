"""Masked patch prediction: chance, targets and loss held against independent computations, then whole runs."""

import csv
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

from vit_lightning import masked_patch
from vit_lightning.errors import InputError
from vit_lightning.masked_patch import MaskedPatch, Masking, colour_classes, random_bits
from vit_lightning.models import NetConfig, build
from vit_lightning.training.optim import Optim, parameter_groups
from vit_lightning.weights import load_into

TARGETS = ("mean_colour", "mean_colour_4x4", "pixels")
FIT = ("fit", "--model", "vit_lightning.masked_patch.MaskedPatch", "--model.net.variant", "mu/4")
FIT += ("--trainer.accelerator", "cpu", "--data", "Digits", "--data.image_size", 8, "--data.batch_size", 32)
FIT += ("--model.optim.lr", 3e-3)


def masked(**settings) -> MaskedPatch:
    model = MaskedPatch(**{"net": NetConfig(variant="mu/8"), "image_size": 16} | settings)
    model.configure_model()
    model.log = lambda *args, **kwargs: None
    return model


def pictures(count: int, size: int = 16, channels: int = 3) -> Tensor:
    return torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8)


def load(path: str | Path) -> dict:
    return torch.load(path, weights_only=True)


# Chance --------------------------------------------------------------------------------------------------------------


def test_random_numbers_are_the_published_ones_of_splitmix64():
    """Outputs of the reference C code for seed 1234567; the next image goes on where the first one ends."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    published += [16408922859458223821]
    numbers = random_bits(1234567, torch.tensor([0, 1]), n=1)[:, :, 0].T.flatten()
    assert numbers.tolist()[:5] == [value >> 1 for value in published]


@pytest.mark.parametrize("n", [4, 49, 196])
def test_exactly_half_of_the_patches_is_corrupted_in_every_image(n):
    masking = Masking(width=1, values=1)
    nn.init.constant_(masking.mask, -1)
    patches = torch.arange(64 * n).reshape(64, n, 1).float()
    corrupted, chosen = masking.corrupt(patches, random_bits(7, torch.arange(64), n))
    assert chosen.shape == (64, n // 2)
    assert all(len(set(row)) == n // 2 for row in chosen.tolist())
    kept = torch.ones(64, n, dtype=torch.bool).scatter(1, chosen, False)
    assert torch.equal(corrupted[kept], patches[kept])
    assert len({tuple(sorted(row)) for row in chosen.tolist()}) > 1


def test_of_the_corrupted_80_are_hidden_10_another_patch_of_the_image_and_10_unchanged():
    images, n = 400, 196
    masking = Masking(width=1, values=1)
    nn.init.constant_(masking.mask, -1)
    patches = torch.arange(images * n).reshape(images, n, 1).float()
    corrupted, chosen = masking.corrupt(patches, random_bits(3, torch.arange(images), n))
    before, after = (values.take_along_dim(chosen[..., None], 1).squeeze(-1) for values in (patches, corrupted))
    hidden, same = after == -1, after == before
    other = ~hidden & ~same
    for kind, share in ((hidden, 0.8), (other, 0.1), (same, 0.1)):  # 39,200 draws: sigma is at most 0.002
        assert kind.float().mean().item() == pytest.approx(share, abs=0.008)
    image = torch.arange(images)[:, None].expand_as(after)
    assert torch.equal((after // n)[other].long(), image[other])
    steps = ((after - before) % n)[other]
    assert (steps.min(), steps.max()) == (1, n - 1)
    often = torch.bincount(chosen.flatten(), minlength=n) / images  # sigma is 0.025
    assert 0.4 < often.min() < often.max() < 0.6


def bits_of(model: MaskedPatch, count: int, first: int, rank: int, world: int) -> Tensor:
    model._trainer = SimpleNamespace(world_size=world, global_rank=rank)
    return model._bits(torch.empty(count), first, seed=5)


def test_an_image_meets_the_same_chance_on_any_number_of_processes():
    model = masked()
    alone = bits_of(model, 8, first=16, rank=0, world=1)
    for rank in range(2):
        assert torch.equal(bits_of(model, 4, first=8, rank=rank, world=2), alone[:, rank::2])


def test_chance_follows_from_seed_epoch_and_place_in_training(monkeypatch):
    """Another epoch hides other patches of an image; what stands at a place in an epoch is the same for any batch."""
    drawn: list[Tensor] = []
    model = masked()
    monkeypatch.setattr(model, "training_loss", lambda images, bits: drawn.append(bits) or torch.zeros(()))
    monkeypatch.setattr(model, "log_training_loss", lambda loss, images: None)
    monkeypatch.setattr(model, "share_of_step", lambda loss, batch_idx: loss)

    def bits(images: int, batch_idx: int, epoch: int = 0, seed: int = 0) -> Tensor:
        monkeypatch.setenv("PL_GLOBAL_SEED", str(seed))
        model._trainer = SimpleNamespace(world_size=1, global_rank=0, current_epoch=epoch)
        model.training_step((pictures(images), torch.zeros(images)), batch_idx)
        return drawn.pop()

    whole = bits(8, 0, epoch=3)
    assert torch.equal(torch.cat([bits(4, batch, epoch=3) for batch in (0, 1)], dim=1), whole)
    others = [whole, bits(8, 0, epoch=2), bits(8, 0, epoch=3, seed=1), bits(8, 1, epoch=3)]
    assert len({tuple(each.flatten().tolist()) for each in others}) == 4


# Targets -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("patch", "cells"), [(8, 1), (8, 4), (14, 1), (16, 4)])
def test_colour_classes_equal_those_of_plain_loops(patch, cells):
    images = pictures(2, size=2 * patch).numpy()
    side = patch // cells
    expected = np.empty((2, 4, cells * cells), dtype=np.int64)
    for b, row, column, i, j in np.ndindex(2, 2, 2, cells, cells):
        y, x = row * patch + i * side, column * patch + j * side
        red, green, blue = (int(images[b, c, y : y + side, x : x + side].mean() // 32) for c in range(3))
        expected[b, row * 2 + column, i * cells + j] = red * 64 + green * 8 + blue
    assert torch.equal(colour_classes(torch.from_numpy(images), patch, cells), torch.from_numpy(expected))


def test_colours_keep_their_class_at_the_edges_of_the_bins():
    for value in (0, 31, 32, 95, 96, 255):
        flat = torch.full((1, 1, 14, 14), value, dtype=torch.uint8)
        assert colour_classes(flat, 14).item() == colour_classes(flat.float() / 255, 14).item() == value // 32
    red = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    red[:, 0] = 255
    assert colour_classes(red, 8).item() == 448


def test_pixel_targets_are_the_normalised_pixels_of_each_patch():
    model = masked(target="pixels", mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 1.0), image_size=(16, 24))
    image = torch.rand(1, 3, 16, 24)
    targets = model.targets(image)
    for number in range(6):
        y, x = 8 * (number // 3), 8 * (number % 3)
        part = image[0, :, y : y + 8, x : x + 8].numpy().transpose(1, 2, 0)
        expected = ((part - (0.1, 0.2, 0.3)) / (0.5, 0.25, 1.0)).reshape(-1)
        np.testing.assert_allclose(targets[0, number].numpy(), expected, atol=1e-6)


def test_pixels_that_the_net_ignores_are_no_target():
    net = NetConfig(variant="mu/8", crop_to_patch=True)
    image = pictures(1, size=19)
    cropped = masked(net=net, image_size=19).targets(image)
    assert torch.equal(cropped, masked().targets(image[:, :, :16, :16]))


# Loss ----------------------------------------------------------------------------------------------------------------


def splitmix64(seed: int, number: int) -> int:
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return (z ^ (z >> 31)) >> 1


def corrupted_by_hand(model: MaskedPatch, image: Tensor, seed: int, place: int) -> tuple[Tensor, list[int]]:
    """Embeddings (n, d) of one image after corruption, and which ones, by plain loops over Python integers."""
    patches = model.net.embed(model.normalise(image[None]))[0]
    n = len(patches)
    draws = [[splitmix64(seed, 3 * n * place + kind * n + i) for i in range(n)] for kind in range(3)]
    chosen = sorted(range(n), key=draws[0].__getitem__)[: n // 2]
    result = patches.clone()
    for i, patch in enumerate(chosen):
        if draws[1][i] % 10 < 8:
            result[patch] = model.masking.mask[0, 0]
        elif draws[1][i] % 10 == 8:
            result[patch] = patches[(patch + 1 + draws[2][i] % (n - 1)) % n]
    return result, chosen


@pytest.mark.parametrize("target", TARGETS)
@torch.no_grad()
def test_the_loss_equals_one_computed_by_hand(target):
    model = masked(target=target, image_size=32, net=NetConfig(variant="mu/8", registers=1))
    nn.init.normal_(model.masking.prediction.weight)
    nn.init.normal_(model.masking.mask)
    images = pictures(3, size=32)
    expected, hits = [], []
    for place, image in enumerate(images):
        patches, chosen = corrupted_by_hand(model, image, seed=11, place=place)
        tokens = model.net.encode(patches[None])[0, 2:].numpy()  # after class token and register
        weight, bias = (parameter.numpy() for parameter in model.masking.prediction.parameters())
        predicted = (tokens[chosen] @ weight.T + bias).astype(np.float64)
        truth = model.targets(image[None])[0, chosen].numpy()
        if target == "pixels":
            expected.append(((predicted - truth) ** 2).mean())
        else:
            logits = predicted.reshape(truth.size, 512)
            nats = np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1)
            expected.append((nats - logits[np.arange(truth.size), truth.reshape(-1)]).mean())
            hits.append((logits.argmax(1) == truth.reshape(-1)).mean())
    outcome = model(images, random_bits(11, torch.arange(3), 16))
    np.testing.assert_allclose(model.losses(*outcome).numpy(), expected, rtol=2e-4)
    if hits:
        np.testing.assert_allclose(model.hits(*outcome).numpy(), hits, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_initial_losses(target):
    """A prediction of zeros: ln 512 for colours, the mean square of the normalised pixels else."""
    model = masked(target=target)
    images = torch.ones(2, 3, 16, 16)
    loss = model.losses(*model(images, random_bits(0, torch.arange(2), 4)))
    assert loss.tolist() == pytest.approx([1.0 if target == "pixels" else math.log(512)] * 2)


@pytest.mark.parametrize(
    "net",
    [
        {},
        {"pool": "gap", "norm_after_pool": True},
        {"pool": "map", "representation": 16},
        {"pool": "gap", "attention": "axial", "position": "learned_2d"},
    ],
)
def test_every_parameter_that_is_trained_takes_part(net):
    """Else DDP would wait for gradients that never come."""
    model = masked(net=NetConfig(variant="mu/8", **net))
    model.losses(*model(pictures(2), random_bits(0, torch.arange(2), 4))).mean().backward()
    assert [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None] == []


def test_the_recipe_trains_net_and_masking_alike():
    model = masked()
    groups = parameter_groups(model.trainable(), Optim(name="adamw", lr=1.0, layer_decay=0.5, weight_decay=0.1))
    settings = {name: (group["lr"], group["weight_decay"]) for group in groups for name in group["parameter_names"]}
    assert settings.keys() == dict(model.named_parameters()).keys()
    assert settings["masking.mask"] == settings["net.class_token"] == (0.25, 0.0)
    assert settings["masking.prediction.weight"] == (1.0, 0.1)


# Steps ---------------------------------------------------------------------------------------------------------------


def validated(model: MaskedPatch, images: Tensor, labels: Tensor, batch_size: int) -> dict[str, float]:
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
    loader = DataLoader(list(zip(images, labels, strict=True)), batch_size)
    return trainer.validate(model, loader, verbose=False)[0]


def test_validation_repeats_itself_in_batches_of_any_size_and_skips_padding():
    model = MaskedPatch(NetConfig(variant="mu/8"), image_size=16)
    model.configure_model()
    nn.init.normal_(model.masking.prediction.weight)
    images, labels = pictures(11), torch.zeros(11, dtype=torch.int64)
    first = validated(model, images, labels, batch_size=11)
    assert first.keys() == {"val/loss", "val/top1"}
    for batch_size in (11, 4):
        assert validated(model, images, labels, batch_size) == pytest.approx(first, rel=1e-5)
    padded = validated(model, torch.cat([images, pictures(2)]), torch.cat([labels, torch.tensor([-100, -100])]), 5)
    assert padded == pytest.approx(first, rel=1e-5)


@pytest.mark.parametrize("target", TARGETS[1:])
def test_the_forward_compiles_to_one_graph(target):
    model = masked(target=target, net=NetConfig(variant="mu/8", pool="gap", position="sincos_2d"))
    nn.init.normal_(model.masking.prediction.weight)
    inputs = pictures(2), random_bits(1, torch.arange(2), 4)
    compiled = torch.compile(model.forward, fullgraph=True, backend="eager")
    for ours, theirs in zip(compiled(*inputs), model(*inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_compiling_keeps_the_keys():
    assert masked().state_dict().keys() == masked(compile=True).state_dict().keys()


@pytest.mark.gpu
@pytest.mark.parametrize("target", TARGETS)
def test_a_step_never_makes_the_host_wait(target):
    model = masked(target=target).cuda()
    model._trainer = SimpleNamespace(world_size=1, global_rank=0)
    images = pictures(4).cuda()
    try:
        for mode in ("default", "error"):  # the first pass loads kernels
            torch.cuda.set_sync_debug_mode(mode)
            model.losses(*model(images, model._bits(images, 8, seed=1))).mean().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"target": "colour"}, "'colour' is none of mean_colour"),
        ({"net": {"variant": "R50x1"}}, "R50x1 .* share pixels"),
        ({"net": {"variant": "R50+B/16"}}, "share pixels"),
        ({"net": {"variant": "mu/8", "stride": 4}}, "stride 4 share pixels"),
        ({"net": {"variant": "mu/14"}, "target": "mean_colour_4x4"}, "4 divides, not 14"),
        ({"net": {"variant": "mu/8", "channels": 13}}, "13 channels; use pixels"),
        ({"net": {"variant": "mu/8", "patch_dropout": 0.5}}, "patch_dropout 0.5 leaves out"),
        ({"image_size": 8}, "one patch"),
        ({"image_size": None}, "image_size unknown"),
        ({"mean": (0.5,)}, "1 values for a net of 3 channels"),
    ],
)
def test_impossible_settings_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        masked(**settings)


def test_hyperparameters_are_plain_and_rebuild_the_model():
    model = masked(optim=Optim(lr=0.5), target="pixels", num_classes=7)
    again = MaskedPatch(**model.hparams)
    assert (again.config, again.optim, again.target) == (model.config, model.optim, "pixels")
    assert isinstance(model.hparams["optim"], dict)
    assert model.hparams["num_classes"] == 0


# Whole runs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_run_learns_and_a_classifier_starts_from_its_checkpoint(app, target):
    done = app(*FIT, "--model.target", target, "--trainer.max_epochs", 2)
    assert done.code == 0, done.err
    with open("runs/default/0/metrics.csv", newline="") as file:
        losses = [float(row["val/loss"]) for row in csv.DictReader(file) if row["val/loss"]]
    assert losses[1] < losses[0]
    assert losses[1] < (0.8 if target == "pixels" else math.log(512) / 2)
    checkpoint = load("runs/default/0/checkpoints/best.ckpt")
    assert checkpoint["model"] == "vit_lightning.masked_patch.MaskedPatch"
    state = checkpoint["state_dict"]
    net = build(NetConfig(variant="mu/4"), 8, num_classes=10)
    report = load_into(net, "runs/default/0/checkpoints/best.ckpt", head="reset")
    assert report.missing.keys() == {"head.weight", "head.bias"}
    assert report.dropped.keys() == {"masking.mask", "masking.prediction.weight", "masking.prediction.bias"}
    assert len(report.loaded) == len(net.state_dict()) - 2
    assert all(torch.equal(net.state_dict()[name], state[f"net.{name}"]) for name in report.loaded)
    assert net.head.weight.count_nonzero() == 0


def test_a_checkpoint_alone_goes_on_with_its_model(app):
    start = (*FIT, "--model.target", "pixels", "--model.schedule.decay", "constant", "--trainer.limit_train_batches", 2)
    assert app(*start, "--trainer.max_epochs", 1).code == 0
    data = ("--data", "Digits", "--data.image_size", 8, "--trainer.accelerator", "cpu")
    done = app("test", *data, "--ckpt_path", "last")
    assert done.code == 0, done.err
    assert re.search(r"^test +364 +0\.\d+$", done.out, re.MULTILINE)
    done = app(*start, "--ckpt_path", "last", "--trainer.max_epochs", 2)
    assert done.code == 0, done.err
    assert load("runs/default/0/checkpoints/last.ckpt")["epoch"] == 1
    for verb, words, said in (
        ("predict", (), "no classes"),
        ("fit", ("--model", "vit_lightning.classifier.Classifier"), "holds a MaskedPatch, not a Classifier"),
        (FIT[0], (*FIT[1:3], "--model.target", "mean_colour"), "target: pixels -> mean_colour"),
    ):
        done = app(verb, *words, *data, "--ckpt_path", "last")
        assert done.code == 1
        assert said in done.err.splitlines()[-1]


def test_an_experiment_of_a_classifier_is_told_to_begin_with_the_net(app):
    """Its class need not be named, being the default, and its settings are none of the checkpoint's."""
    assert app(*FIT, "--trainer.limit_train_batches", 2).code == 0
    Path("classify.yaml").write_text("model: {label_smoothing: 0.1}\n")
    checkpoint = "runs/default/0/checkpoints/last.ckpt"
    words = ("--data", "Digits", "--data.image_size", 8, "--data.batch_size", 32, "--trainer.limit_train_batches", 2)
    words = ("fit", "-c", "classify.yaml", "--trainer.accelerator", "cpu", *words)
    done = app(*words, "--ckpt_path", checkpoint)
    assert done.code == 1
    assert f"--ckpt_path {checkpoint} holds a MaskedPatch, which has no model.label_smoothing" in done.err
    assert f"give --model.weights {checkpoint} in its place" in done.err
    for head in ((), ("--model.weights_head", "reset")):  # a net without a head needs no flag for a new one
        done = app(*words, "--model.weights", checkpoint, *head)
        assert done.code == 0 and re.search("missing +head.weight, head.bias +the head is reset", done.err), done.err
    done = app("test", *words[3:], "--model.weights", checkpoint)
    assert done.code == 1 and "The weights have no head, the net's is for 10 classes" in done.err
    done = app(*words[:1], *words[3:], "--ckpt_path", checkpoint, "--model.optim.lrr", 1)
    assert "there is no flag --model.optim.lrr; did you mean --model.optim.lr?" in done.err


# Images that are wider than high, and other channels than three ------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("cells", [1, 4])
def test_colours_of_wide_images_are_those_of_their_own_patch(channels, cells):
    """Two rows of three patches; each part of each is one flat colour, whose class is known."""
    patch, side = 8, 8 // cells
    chance = np.random.default_rng(0)
    shades = chance.integers(0, 8, (2, 2 * cells, 3 * cells, channels))
    flat = (shades * 32 + 5).repeat(side, 1).repeat(side, 2).transpose(0, 3, 1, 2).astype(np.uint8)
    found = colour_classes(torch.from_numpy(flat), patch, cells)
    assert found.shape == (2, 6, cells**2)
    for b, row, column, i, j in np.ndindex(2, 2, 3, cells, cells):
        digits = shades[b, row * cells + i, column * cells + j]
        expected = sum(int(digit) * 8 ** (channels - 1 - place) for place, digit in enumerate(digits))
        assert found[b, row * 3 + column, i * cells + j] == expected


@pytest.mark.parametrize("target", TARGETS)
def test_each_side_is_cropped_to_its_own_patches(target):
    net = NetConfig(variant="mu/8", crop_to_patch=True)
    images = torch.randint(0, 256, (2, 3, 19, 30), dtype=torch.uint8)
    cropped = masked(net=net, image_size=(19, 30), target=target).targets(images)
    plain = masked(image_size=(16, 24), target=target).targets(images[:, :, :16, :24])
    assert torch.equal(cropped, plain) and cropped.shape[1] == 6


@pytest.mark.parametrize(("target", "values"), [("mean_colour", 64), ("mean_colour_4x4", 16 * 64), ("pixels", 128)])
def test_as_many_numbers_are_predicted_as_the_target_has(target, values):
    model = masked(target=target, net=NetConfig(variant="mu/8", channels=2))
    assert model.masking.prediction.weight.shape == (values, 32)
    assert model.masking.mask.shape == (1, 1, 32)
    assert list(model.scores["val"]) == (["loss"] if target == "pixels" else ["loss", "top1"])
    assert (
        model.objective
        == {
            "pixels": "mean squared error of pixels",
            "mean_colour": "cross-entropy of mean_colour",
            "mean_colour_4x4": "cross-entropy of mean_colour_4x4",
        }[target]
    )


def test_four_channels_have_colours_and_five_have_none():
    masked(net=NetConfig(variant="mu/8", channels=4))
    with pytest.raises(InputError, match=r"mean_colour has 8\^5 classes for 5 channels; use pixels"):
        masked(net=NetConfig(variant="mu/8", channels=5))
    masked(net=NetConfig(variant="mu/8", channels=5), target="pixels")


@torch.no_grad()
@pytest.mark.parametrize("after_pool", [True, False])
def test_tokens_are_normalised_before_the_prediction_once(after_pool):
    """A net that normalises what it has pooled has not yet normalised its tokens."""
    model = masked(net=NetConfig(variant="mu/8", pool="gap", norm_after_pool=after_pool), image_size=(16, 24))
    nn.init.normal_(model.masking.prediction.weight)
    nn.init.normal_(model.net.norm.weight)
    images = model.normalise(torch.randint(0, 256, (2, 3, 16, 24), dtype=torch.uint8))
    bits = random_bits(0, torch.arange(2), 6)
    predicted, chosen = model.masking(model.net, images, bits)
    patches, same = model.masking.corrupt(model.net.embed(images), bits)
    tokens = model.net.encode(patches)
    tokens = model.net.norm(tokens) if after_pool else tokens
    assert torch.equal(chosen, same) and chosen.shape == (2, 3)
    for b in range(2):
        for place, number in enumerate(chosen[b].tolist()):
            torch.testing.assert_close(predicted[b, place], model.masking.prediction(tokens[b, number]))


def test_of_an_odd_number_of_patches_the_smaller_half_is_corrupted():
    masking = Masking(width=1, values=1)
    patches = torch.arange(9.0).reshape(1, 9, 1)
    assert masking.corrupt(patches, random_bits(0, torch.arange(1), 9))[1].shape == (1, 4)


@torch.no_grad()
def test_every_validation_begins_at_the_first_image_and_a_batch_goes_on_where_the_last_ended(monkeypatch):
    model = masked(target="pixels")
    model._trainer = SimpleNamespace(world_size=3, global_rank=1)
    places: list[list[int]] = []
    whole = masked_patch.random_bits
    monkeypatch.setattr(
        masked_patch, "random_bits", lambda seed, at, n: places.append([seed, *at.tolist()]) or whole(seed, at, n)
    )
    labels = torch.tensor([[0, 1], [-100, -100], [1, 0]])
    for _ in range(2):
        for number, count in enumerate((3, 2, 3)):
            model.validation_step((pictures(count), labels[:count]), number)
    assert places == [[0, 1, 4, 7], [0, 10, 13], [0, 16, 19, 22]] * 2
    assert model.scores["val"]["loss"].weight.item() == 2 * (2 + 1 + 2)
    assert not model.scores["test"]["loss"].update_called
    model.test_step((pictures(1), torch.tensor([0])), 0)
    assert model.scores["test"]["loss"].weight.item() == 1
