"""What the data tell a model in Python, where no command line links them: channels and window."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import LightningDataModule, Trainer
from torch.utils.data import DataLoader

from tests.data.test_window import DEEP, EIGHT, Tiny
from vit_lightning.classifier import Classifier
from vit_lightning.data.window import window_of
from vit_lightning.errors import InputError
from vit_lightning.masked_patch import MaskedPatch
from vit_lightning.models import NetConfig
from vit_lightning.training.data_facts import take_facts

NET = NetConfig("mu/8")


def trainer(tmp_path, **settings) -> Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return Trainer(default_root_dir=tmp_path, max_epochs=1, **quiet | settings)


def test_channels_and_a_window_that_is_found_reach_the_model_and_its_checkpoint(tmp_path):
    model, data = Classifier(NET), Tiny(channels=1, window="auto")
    fit = trainer(tmp_path)
    fit.fit(model, data)
    assert model.config.channels == 1 and len(model.mean) == 1
    assert model.hparams.window == window_of(DEEP) == data.pixel_form.window
    fit.save_checkpoint(tmp_path / "net.ckpt")
    again = Classifier.load_from_checkpoint(tmp_path / "net.ckpt")
    assert again.config.channels == 1 and again.pixel_facts == (1, window_of(DEEP))


def test_data_that_say_nothing_take_what_the_model_keeps(tmp_path):
    model = Classifier(NET, num_classes=3, image_size=8, channels=1, window=(0, 4000))
    data = Tiny()
    trainer(tmp_path).validate(model, data, verbose=False)
    assert (data.pixel_form.channels, data.pixel_form.window) == (1, (0, 4000))
    model, data = Classifier(NET, num_classes=3, image_size=8, channels=4), Tiny()
    with pytest.raises(InputError, match=r"has 1 channel, but the net takes 4"):
        trainer(tmp_path).validate(model, data, verbose=False)


def test_a_checkpoint_knows_the_window_of_its_own_training(tmp_path):
    model, data = Classifier(NET), Tiny(channels=1, window="auto")
    fit = trainer(tmp_path, max_steps=1)
    fit.fit(model, data)
    fit.save_checkpoint(tmp_path / "net.ckpt")
    other = Tiny(records=DEEP[:6] * 2, channels=1, window="auto")
    resumed = Classifier(NET)
    trainer(tmp_path, max_steps=2).fit(resumed, other, ckpt_path=tmp_path / "net.ckpt", weights_only=True)
    assert window_of(other.records) != window_of(DEEP)
    assert tuple(resumed.hparams.window) == window_of(DEEP) == other.pixel_form.window


def test_a_net_that_stands_keeps_its_channels(tmp_path):
    model = Classifier(NET, num_classes=3, image_size=8)
    with pytest.raises(InputError, match=r"--data.channels is 1, but the model's net was built for 3; make the model "):
        trainer(tmp_path).fit(model, Tiny(channels=1))
    with pytest.raises(InputError, match=r"--data.channels is 1, but the net has channels=4"):
        trainer(tmp_path).fit(Classifier(NetConfig("mu/8", channels=4)), Tiny(channels=1))
    with pytest.raises(InputError, match=r"--data.channels is 1, but the net has channels=4"):
        Classifier(NetConfig("mu/8", channels=4), channels=1)
    with pytest.raises(InputError, match=r"the model's window is \(0, 9\), but that of Tiny is \(0, 8\)"):
        trainer(tmp_path).fit(Classifier(NET, window=(0, 9)), Tiny(window=(0, 8)))


def test_masked_patches_learn_of_the_channels_too(tmp_path):
    model = MaskedPatch(NetConfig("mu/4"))
    trainer(tmp_path).fit(model, Tiny(records=EIGHT, channels=1))
    assert model.masking.prediction.bias.numel() == 8
    with pytest.raises(InputError, match=r"8\^5 classes for 5 channels"):
        trainer(tmp_path).fit(MaskedPatch(NetConfig("mu/4")), Tiny(records=EIGHT, channels=5))


def test_weights_of_a_window_say_so(tmp_path, caplog):
    fit, model = trainer(tmp_path), Classifier(NET)
    fit.fit(model, Tiny(channels=1, window=(0, 4095)))
    fit.save_checkpoint(tmp_path / "net.ckpt")
    with caplog.at_level("INFO"):
        begun = Classifier(weights=str(tmp_path / "net.ckpt"), num_classes=3, image_size=8)
        assert begun.config.channels == 1
        assert "trained with --data.window [0,4095], and these data have none" in caplog.text
        caplog.clear()
        Classifier(weights=str(tmp_path / "net.ckpt"), num_classes=3, image_size=8, window=(0, 4095))
        assert "--data.window" not in caplog.text


def test_data_of_others_may_call_anything_a_window(tmp_path):
    class Others(LightningDataModule):
        window, channels = "a week", "left and right"
        num_classes, image_size = 3, 8

        def train_dataloader(self) -> DataLoader:
            return DataLoader([(torch.zeros(3, 8, 8), 1)] * 4, batch_size=2)

    model = Classifier(NET)
    trainer(tmp_path).fit(model, Others())
    assert model.pixel_facts == (None, None)


def test_a_checkpoint_from_before_channels_opens(tmp_path):
    model = Classifier(NET, num_classes=3, image_size=8)
    fit = trainer(tmp_path)
    fit.fit(model, Tiny(records=EIGHT))
    fit.save_checkpoint(tmp_path / "net.ckpt")
    content = torch.load(tmp_path / "net.ckpt", weights_only=True)
    for name in ("channels", "window"):
        del content["hyper_parameters"][name]
    torch.save(content, tmp_path / "old.ckpt")
    old = Classifier.load_from_checkpoint(tmp_path / "old.ckpt")
    assert old.pixel_facts == (None, None) and old.config.channels == 3
    trainer(tmp_path).validate(Classifier(NET), Tiny(records=EIGHT), ckpt_path=tmp_path / "old.ckpt", verbose=False)


@pytest.mark.parametrize("name", ["mean", "std"])
@pytest.mark.parametrize(("values", "agree"), [((0.25, 0.5, 0.7508), True), ((0.25, 0.502, 0.75), False)])
def test_statistics_of_data_and_weights_agree_up_to_how_they_are_written(tmp_path, name, values, agree):
    known = {"mean": (0.25, 0.5, 0.75), "std": (0.25, 0.5, 0.75)}
    model = Classifier(NET, num_classes=3, image_size=8, **known)
    facts = {"hyper_parameters": dict(model.hparams), "pytorch-lightning_version": "2.6.0"}
    torch.save({"state_dict": model.state_dict()} | facts, tmp_path / "net.ckpt")
    data = SimpleNamespace(**known | {name: values})
    if agree:
        take_facts(model, data)
        begun = Classifier(weights=str(tmp_path / "net.ckpt"), num_classes=3, image_size=8, **{name: values})
        assert begun.hparams[name] == values
        return
    with pytest.raises(InputError, match=f"the model's {name} is .* but that of SimpleNamespace is"):
        take_facts(model, data)
    with pytest.raises(InputError, match=rf"data\.{name} is .*, but the weights were trained with .*; drop --"):
        Classifier(weights=str(tmp_path / "net.ckpt"), num_classes=3, image_size=8, **{name: values})
