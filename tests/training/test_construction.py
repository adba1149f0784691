"""Models made in Python, without the command line: their nets, their facts, and what their checkpoints keep."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.strategies import ModelParallelStrategy
from PIL import Image
from torch.distributed.fsdp import FSDPModule

from datamodules.images import Images
from datamodules.synthetic import Synthetic
from vit_lightning.classifier import Classifier
from vit_lightning.errors import InputError
from vit_lightning.masked_patch import MaskedPatch
from vit_lightning.models import NetConfig
from vit_lightning.training.construction import may_build, nets_built_by_trainers

NET = NetConfig("mu/8")
MEAN, STD = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)


def trainer(folder: Path, **settings) -> Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return Trainer(**{"accelerator": "cpu", "max_steps": 2, "default_root_dir": folder} | quiet | settings)


def data(**settings) -> Synthetic:
    return Synthetic(
        **{"image_size": 16, "train_size": 32, "eval_size": 8, "batch_size": 16, "num_workers": 0} | settings
    )


class Tilted(Classifier):
    """A subclass with arguments of its own."""

    def __init__(self, tilt: float = 1.0, places: tuple[int, ...] = (), **kwargs) -> None:
        super().__init__(**kwargs)
        self.tilt, self.places = tilt, places

    def forward(self, images):
        return super().forward(images) * self.tilt


class Twice(Tilted):
    """One whose own argument is of no use to its base."""

    def __init__(self, other: Path, net: NetConfig = NET, **kwargs) -> None:
        super().__init__(net=net, **kwargs)
        self.other = other


@pytest.mark.parametrize("model", [Classifier, MaskedPatch, Tilted])
def test_known_sizes_give_a_net_at_once(model):
    made = model(net=NET, num_classes=4, image_size=16)
    assert sum(parameter.numel() for parameter in made.parameters()) > 1000


def test_a_model_of_known_sizes_answers():
    model = Classifier(NET, num_classes=4, image_size=16, mean=MEAN, std=STD).eval()
    images = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    shifted = (images / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    torch.testing.assert_close(model(images), model.net(shifted))


def test_unknown_sizes_and_no_storage_leave_the_net_to_the_trainer():
    assert Classifier(NET).net is None
    with torch.device("meta"):
        assert Classifier(NET, num_classes=4, image_size=16).net is None


def test_the_data_tells_the_model_its_facts(tmp_path):
    model = Classifier(NET)
    trainer(tmp_path).fit(model, datamodule=data(mean=MEAN, std=STD))
    assert model.hparams.image_size == 16 and model.hparams.num_classes == model.net.num_classes
    assert model.hparams.mean == MEAN and model.std.flatten().tolist() == pytest.approx(STD)


def test_the_datas_normalisation_reaches_a_net_that_is_there_already(tmp_path):
    model = Classifier(NET, num_classes=data().num_classes, image_size=16)
    before = model.net
    trainer(tmp_path).fit(model, datamodule=data(mean=MEAN, std=STD))
    assert model.net is before and model.mean.flatten().tolist() == pytest.approx(MEAN)
    saved = torch.load(next(tmp_path.rglob("*.ckpt")), weights_only=True)
    assert saved["hyper_parameters"]["mean"] == MEAN


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mean": (0.5, 0.5, 0.5)}, r"the model's mean is \(0\.5, 0\.5, 0\.5\), but that of Synthetic is \(0\.1"),
        ({"image_size": 24}, "the model's image_size is 24, but that of Synthetic is 16"),
        ({"num_classes": 3}, "the model's num_classes is 3, but that of Synthetic is"),
    ],
)
def test_facts_that_differ_are_an_error(tmp_path, settings, said):
    facts = {"num_classes": data().num_classes, "image_size": 16, "mean": MEAN}
    with pytest.raises(InputError, match=said):
        trainer(tmp_path).fit(Classifier(NET, **facts | settings), datamodule=data(mean=MEAN, std=STD))


def test_a_checkpoint_tells_the_normalisation_that_nobody_states(tmp_path):
    trainer(tmp_path).fit(Classifier(NET), datamodule=data(mean=MEAN, std=STD))
    checkpoint = next(tmp_path.rglob("*.ckpt"))
    model = Classifier(NET, num_classes=data().num_classes, image_size=16)
    trainer(tmp_path).test(model, datamodule=data(), ckpt_path=checkpoint, verbose=False)
    assert model.hparams.mean == MEAN and model.std.flatten().tolist() == pytest.approx(STD)


def test_one_model_serves_several_trainers(tmp_path):
    model, images = Classifier(NET), data(mean=MEAN, std=STD)
    trainer(tmp_path).fit(model, datamodule=images)
    again = trainer(tmp_path, max_steps=4)
    again.fit(model, datamodule=data())  # which states no mean: the model's stays
    assert again.global_step == 4 and model.hparams.mean == MEAN
    first, second = (trainer(tmp_path).test(model, datamodule=data(), verbose=False) for _ in range(2))
    assert first == second
    assert trainer(tmp_path).validate(model, datamodule=data(), verbose=False)
    assert len(trainer(tmp_path).predict(model, datamodule=data())) == 1
    trainer(tmp_path, max_steps=1).fit(model, datamodule=images)


def test_a_models_classes_stay_what_they_were(tmp_path):
    """Unlabelled images take nothing from them, and data of other classes are not scored by them."""
    Image.new("RGB", (20, 20)).save(tmp_path / "x.png")
    model, images = Classifier(NET), data()
    trainer(tmp_path).fit(model, datamodule=images)
    trainer(tmp_path).predict(model, datamodule=Images(str(tmp_path / "x.png"), num_workers=0))
    assert model.class_names == images.class_names
    with pytest.raises(InputError, match=r"the data alone have 'other'.*; the model alone has 'stripes at 0 degrees'"):
        trainer(tmp_path).test(model, datamodule=Others(image_size=16, num_workers=0))


class Others(Synthetic):
    class_names: ClassVar[list[str]] = ["other"] * data().num_classes


def test_a_subclass_keeps_its_own_arguments(tmp_path):
    model = Tilted(0.25, places=(1, 2), net=NET)
    trainer(tmp_path).fit(model, datamodule=data())
    checkpoint = next(tmp_path.rglob("*.ckpt"))
    again = Tilted.load_from_checkpoint(checkpoint)
    assert (again.tilt, again.places) == (0.25, (1, 2))
    images = torch.rand(2, 3, 16, 16)
    torch.testing.assert_close(again.eval()(images), model.eval()(images))


def test_arguments_of_every_level_are_kept_in_plain_types(tmp_path):
    model = Twice(Path("there"), tilt=0.5)
    assert model.hparams.tilt == 0.5 and model.hparams.other == "there"
    assert Twice(**model.hparams).tilt == 0.5


class Odd(Classifier):
    def __init__(self, criterion: object, **kwargs) -> None:
        super().__init__(**kwargs)


class Known(Odd):
    unsaved = ("criterion",)


def test_an_argument_that_no_checkpoint_holds_is_refused():
    with pytest.raises(InputError, match="Odd's argument criterion is a Linear, which no checkpoint can hold"):
        Odd(torch.nn.Linear(1, 1), net=NET)
    assert "criterion" not in Known(torch.nn.Linear(1, 1), net=NET).hparams


@dataclass
class Shape:
    sides: int = 3


def test_a_dataclass_is_kept_as_its_values():
    assert Odd(Shape(), net=NET).hparams.criterion == {"sides": 3}


OWN = """
from vit_lightning.classifier import Classifier


class Tilted(Classifier):
    def __init__(self, tilt: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.tilt = tilt

    def forward(self, images):
        return super().forward(images) * self.tilt
"""


def test_the_command_line_opens_a_subclass_with_its_own_arguments(app, tmp_path, monkeypatch):
    (tmp_path / "own_model.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ("--data", "Synthetic", "--data.train_size", 32, "--data.eval_size", 8, "--data.num_workers", 0)
    words += (
        "--data.image_size",
        16,
        "--data.batch_size",
        16,
        "--trainer.accelerator",
        "cpu",
        "--model",
        "own_model.Tilted",
    )
    done = app("fit", *words, "--model.net.variant", "mu/8", "--model.tilt", 0.125, "--trainer.max_steps", 1)
    assert done.code == 0, done.err
    saved = torch.load("runs/default/0/checkpoints/last.ckpt", weights_only=True)
    assert saved["hyper_parameters"]["tilt"] == 0.125
    done = app("test", *words, "--ckpt_path", "last")
    assert done.code == 0 and "differs" not in done.out + done.err, done.err


def test_a_net_that_is_there_already_is_sharded(tmp_path, monkeypatch):
    """FSDP2 on one process: the Trainer shards the net that was built at construction, and no second one."""
    # Lightning sets them, and the children of later tests would inherit them.
    for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    model = Classifier(NET, num_classes=data().num_classes, image_size=16)
    built = model.net
    strategy = ModelParallelStrategy(data_parallel_size=1, tensor_parallel_size=1, process_group_backend="gloo")
    try:
        trainer(tmp_path, strategy=strategy, devices=1, enable_checkpointing=False).fit(model, datamodule=data())
    finally:
        torch.distributed.destroy_process_group()
    assert model.net is built and isinstance(model.net, FSDPModule) and isinstance(model.net.blocks[0], FSDPModule)


def test_a_net_is_built_at_once_where_tensors_have_a_storage():
    assert may_build()
    with nets_built_by_trainers():
        assert not may_build()
    assert may_build()
    with torch.device("meta"):
        assert not may_build()
