"""What every model's recipe shares, through the command line."""

import re
from inspect import getattr_static
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from vit_lightning.classifier import Classifier
from vit_lightning.contracts import RecipeTrained
from vit_lightning.masked_patch import MaskedPatch
from vit_lightning.models import NetConfig
from vit_lightning.training import recipe
from vit_lightning.training.metrics import WeightedMean
from vit_lightning.training.optim import Optim, Schedule

DATA = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.num_workers", 0)
NET = ("--model.net.variant", "mu/8", "--model.net.depth", 2, "--data.image_size", 16)
CPU = ("--trainer.accelerator", "cpu")
FSDP = ("ModelParallelStrategy", "--trainer.strategy.data_parallel_size=2", "--trainer.strategy.tensor_parallel_size=1")
FSDP += ("--trainer.strategy.save_distributed_checkpoint=false",)


def trained(number: int) -> dict[str, torch.Tensor]:
    return torch.load(f"runs/default/{number}/checkpoints/last.ckpt", weights_only=True)["state_dict"]


def close(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], tolerance: float) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("model", ["classifier.Classifier", "masked_patch.MaskedPatch"])
def test_recomputing_blocks_trains_the_same_weights(app, model):
    words = ("fit", "--model", f"vit_lightning.{model}", *DATA, *NET, *CPU, "--data.batch_size", 8)
    for recompute in ("false", "true"):
        done = app(*words, "--model.net.dropout", 0.1, "--model.recompute", recompute)
        assert done.code == 0, done.err
    close(trained(0), trained(1), 1e-6)


@pytest.mark.parametrize("strategy", [("ddp",), FSDP], ids=["ddp", "fsdp2"])
def test_recomputing_blocks_works_on_two_processes(app, together, strategy):
    words = ("fit", *DATA, *NET, *CPU, "--model.optim.name", "sgd", "--data.batch_size")
    assert app(*words, 8).code == 0
    together(*words, 4, "--model.recompute", "true", "--trainer.devices", 2, "--trainer.strategy", *strategy)
    close(trained(0), trained(1), 1e-5)


@pytest.mark.parametrize("model", [Classifier, MaskedPatch])
def test_models_offer_what_callbacks_and_verbs_ask_for(model):
    """Also where isinstance looks members up without __getattr__, as from Python 3.12 on."""
    trained = model(net=NetConfig("mu/8"), num_classes=3, image_size=16)
    assert isinstance(trained, RecipeTrained) and not isinstance(LightningModule(), RecipeTrained)
    for name in ("config", "schedule", "weights", "gradient_norms", "objective", "score_names"):
        getattr_static(trained, name)
    assert trained.score_names[:2] == ["loss", "top1"] and trained.weights is None
    targets = torch.eye(3)
    assert torch.equal(trained.smooth(targets), targets)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_that_nobody_normalises_lie_between_minus_and_plus_one(channels):
    model = Classifier(net=NetConfig("mu/8", channels=channels), num_classes=3, image_size=16)
    values = torch.tensor([0, 51, 255], dtype=torch.uint8).expand(1, channels, 1, 3)
    for images in (values, values / 255):
        torch.testing.assert_close(model.normalise(images), torch.tensor([-1, -0.6, 1]).expand(1, channels, 1, 3))


def test_every_channel_is_normalised_by_its_own_mean_and_deviation():
    model = Classifier(NetConfig("mu/8"), num_classes=3, image_size=16, mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 0.125))
    expected = [(0.6 - mean) / std for mean, std in ((0.1, 0.5), (0.2, 0.25), (0.3, 0.125))]
    for images in (torch.full((2, 3, 4, 4), 153, dtype=torch.uint8), torch.full((2, 3, 4, 4), 0.6)):
        torch.testing.assert_close(model.normalise(images)[1, :, 3, 0], torch.tensor(expected))


@pytest.mark.parametrize("model", [Classifier, MaskedPatch])
def test_a_checkpoint_holds_the_weights_alone(model):
    """Normalisation and the images of scores stand among the settings, and change without a net's weights."""
    made = model(net=NetConfig("mu/8"), num_classes=3, image_size=16, mean=(0.1, 0.2, 0.3))
    assert made.state_dict().keys() == {name for name, _ in made.named_parameters()}


def test_clipping_by_the_guards_norms_is_clipping_by_norm():
    """The norms of all gradients, taken once, give torch's own clipping."""
    model = Classifier(net=NetConfig("mu/8"), num_classes=3, image_size=16)
    model.configure_model()
    optimizer = model.optim.build(model.trainable())
    for scale, clip in ((1.0, 0.5), (1e-4, 0.5)):
        torch.manual_seed(0)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter) * scale
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        stand_ins = [torch.nn.Parameter(grad) for grad in expected]
        for stand_in, grad in zip(stand_ins, expected, strict=True):
            stand_in.grad = grad
        torch.nn.utils.clip_grad_norm_(stand_ins, clip)
        model.gradient_norms = torch.stack([parameter.grad.norm() for parameter in model.parameters()])
        model.configure_gradient_clipping(optimizer, clip, "norm")
        assert model.gradient_norms is None
        for parameter, wanted in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, wanted)


def test_clipping_by_value_bounds_every_number_and_reads_no_norm():
    model = Classifier(net=NetConfig("mu/8"), num_classes=3, image_size=16)
    settings = {"gradient_clip_val": 0.5, "gradient_clip_algorithm": "value"}
    model.trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, **settings)
    optimizer = model.optim.build(model.trainable())
    for parameter in model.parameters():
        parameter.grad = torch.linspace(-2, 2, parameter.numel()).reshape(parameter.shape)
    expected = [parameter.grad.clamp(-0.5, 0.5) for parameter in model.parameters()]
    model.gradient_norms = torch.stack([parameter.grad.norm() for parameter in model.parameters()])
    model.configure_gradient_clipping(optimizer, 0.5, "value")
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, wanted)


def test_the_host_reads_nothing_from_the_device_between_two_logs(app, monkeypatch):
    reads, item = [], torch.Tensor.item
    monkeypatch.setattr(torch.Tensor, "item", lambda tensor: reads.append(tensor) or item(tensor))
    logs, steps = 2, 40
    words = (
        "fit",
        *DATA,
        *NET,
        *CPU,
        "--data.batch_size",
        8,
        "--data.train_size",
        8 * steps,
        "--trainer.max_epochs",
        1,
    )
    done = app(*words, "--trainer.limit_val_batches", 0, "--trainer.log_every_n_steps", steps // logs)
    assert done.code == 0, done.err
    assert len(reads) < steps // 2
    assert re.search(r"epoch 1/1 done, step \d+/\d+, loss \d", done.out)


class Gradients(Callback):
    """Compares each optimiser step's gradients with those of the mean loss of the step's batches."""

    def on_train_start(self, trainer, pl_module):
        self.batches, self.counts = [], []

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.batches.append(batch)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        parameters = list(pl_module.parameters())
        loss = sum(pl_module.batch_loss(*batch) for batch in self.batches) / len(self.batches)
        for own, parameter in zip(torch.autograd.grad(loss, parameters), parameters, strict=True):
            torch.testing.assert_close(parameter.grad, own, atol=1e-6, rtol=1e-4)
        self.counts.append(len(self.batches))
        self.batches = []


@pytest.mark.parametrize(("images", "counts"), [(48, [4, 2]), (40, [4, 1]), (24, [3]), (64, [4, 4])])
def test_an_epoch_s_last_step_is_the_mean_of_the_batches_that_are_left(images, counts):
    from datamodules.synthetic import Synthetic

    torch.manual_seed(0)
    check = Gradients()
    data = Synthetic(train_size=images, eval_size=8, image_size=16, batch_size=8, num_workers=0)
    model = Classifier(net={"variant": "mu/8"}, num_classes=data.num_classes, image_size=16)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(accelerator="cpu", max_epochs=2, accumulate_grad_batches=4, callbacks=[check], **quiet)
    trainer.fit(model, data)
    assert check.counts == counts * 2


def counted(labels: int) -> WeightedMean:
    metric = WeightedMean()
    metric.update(torch.ones(labels), torch.ones(labels))
    return metric


@pytest.mark.parametrize("split", ["val", "test"])
@pytest.mark.parametrize(
    ("labels", "size", "batches", "devices", "skipped", "images"),
    [
        (5, 7, 4, 1, None, 7),
        (7, 7, 4, 1, None, None),
        (5, 7, 2, 2, None, 7),
        (3, 7, 1, 2, None, 4),
        (4, 7, 1, 2, None, None),
        (5, 12, 1, 3, None, 6),
        (5, 12, float("inf"), 1, None, 12),
        (5, 7, 4, 1, 1, 6),
        (6, 7, 4, 1, 1, None),
        (5, 7, 2, 2, 2, None),
    ],
)
def test_images_that_count_are_held_against_all_that_were_looked_at(
    monkeypatch, split, labels, size, batches, devices, skipped, images
):
    """Those of all devices and batches, but for the ones that could not be read."""
    said = []
    monkeypatch.setattr(recipe, "rank_zero_info", said.append)
    model = MaskedPatch(net=NetConfig("mu/8"), num_classes=3, image_size=16)
    model.scores[split]["loss"] = counted(labels)
    dataset = SimpleNamespace(skipped=None if skipped is None else SimpleNamespace(count=skipped))
    dataset = type("Images", (SimpleNamespace,), {"__len__": lambda self: size})(**vars(dataset))
    loader = SimpleNamespace(dataset=dataset, batch_size=2)
    facts = {f"{split}_dataloaders": loader, f"num_{split}_batches": [batches], "world_size": devices}
    model.trainer = SimpleNamespace(**facts, sanity_checking=False)
    for _ in range(2):  # an epoch after the other says it once
        model.on_validation_epoch_end() if split == "val" else model.on_test_epoch_end()
    name = {"val": "validation"}.get(split, split)
    sentence = f"{labels} of {images} {name} images have a label; the others count nothing"
    assert said == [sentence] * (images is not None)


@pytest.mark.parametrize("lacks", ["length", "batch size", "set"])
def test_of_a_loader_that_does_not_tell_its_images_nothing_is_said(monkeypatch, lacks):
    said = []
    monkeypatch.setattr(recipe, "rank_zero_info", said.append)
    model = MaskedPatch(net=NetConfig("mu/8"), num_classes=3, image_size=16)
    model.scores["test"]["loss"] = counted(5)
    facts = {"dataset": iter(range(7)) if lacks == "length" else range(7), "batch_size": 2}
    facts.pop({"batch size": "batch_size", "set": "dataset"}.get(lacks, ""), None)
    of_trainer = {"test_dataloaders": SimpleNamespace(**facts), "num_test_batches": [4], "world_size": 1}
    model.trainer = SimpleNamespace(**of_trainer, sanity_checking=False)
    model.on_test_epoch_end()
    assert said == []


@pytest.mark.parametrize(("every", "step", "logs"), [(5, 4, True), (5, 5, False), (1, 0, True), (0, 4, False)])
def test_the_loss_is_logged_in_the_steps_that_loggers_read(monkeypatch, every, step, logs):
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8)
    model._trainer = SimpleNamespace(log_every_n_steps=every, global_step=step)
    logged: list[tuple] = []
    monkeypatch.setattr(model, "log", lambda *words, **facts: logged.append((*words, facts)))
    model.log_training_loss(torch.tensor(2.0), 7)
    assert logged == [("train/loss", torch.tensor(2.0), {"batch_size": 7, "sync_dist": True})] * logs


@pytest.mark.parametrize("lr", [0.25, 0.0])
def test_the_rate_of_a_step_is_that_of_the_schedule(lr):
    model = Classifier(
        {"variant": "mu/8"},
        num_classes=3,
        image_size=8,
        optim=Optim(name="sgd", lr=lr),
        schedule=Schedule(warmup_steps=2, decay="linear"),
    )
    facts = {"estimated_stepping_batches": 10, "fast_dev_run": False, "precision": "32-true"}
    model._trainer, model.graphs = SimpleNamespace(**facts), None
    found = model.configure_optimizers()
    rates = []
    for _ in range(10):
        rates.append(found["optimizer"].param_groups[0]["lr"])
        found["optimizer"].step()
        found["lr_scheduler"]["scheduler"].step()
    assert rates == pytest.approx([model.schedule.lr(step, lr, 10) if lr else 0 for step in range(10)])
    assert max(rates) == pytest.approx(lr)
    assert (found["lr_scheduler"]["interval"], found["lr_scheduler"]["name"]) == ("step", "lr")
