"""What a recipe is where no flag says otherwise: earlier runs' commands mean what they meant."""

from dataclasses import asdict
from inspect import signature

from vit_lightning.classifier import Classifier
from vit_lightning.data import ImageDataModule
from vit_lightning.models.lora import Lora
from vit_lightning.training.averaging import Averaging
from vit_lightning.training.optim import Optim, Schedule


def defaults(kind: type) -> dict[str, object]:
    parameters = signature(kind.__init__).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def test_the_recipe_is_the_papers_adam_under_a_cosine():
    assert asdict(Optim()) == {
        **{"name": "adam", "lr": 1e-3, "weight_decay": 0, "momentum": 0.9, "betas": (0.9, 0.999)},
        **{"decay_on": None, "layer_decay": 1},
    }
    assert asdict(Schedule()) == {
        **{"decay": "cosine", "warmup_steps": 0, "end_lr": 1e-5, "timescale": 10_000, "cooldown_steps": 0},
        **{"milestones": (1 / 3, 2 / 3, 8 / 9), "allow_horizon_change": False},
    }
    assert asdict(Averaging()) == {"decay": 0, "warmup": True}
    assert asdict(Lora()) == {"rank": 0, "alpha": 8}


def test_a_classifier_trains_the_whole_net_by_softmax_and_changes_no_loss():
    found = defaults(Classifier)
    recipes = {"net", "optim", "schedule", "averaging", "lora"}
    unset = {"class_weights", "weights", "scores", "num_classes", "image_size", "channels", "window", "mean", "std"}
    assert {name for name, value in found.items() if value is None} == unset
    assert {name: value for name, value in found.items() if name not in recipes | unset} == {
        **{"loss": "softmax", "label_smoothing": 0, "focal_gamma": 0, "logit_adjustment": 0, "threshold": 0.5},
        **{"weights_raw": False, "weights_head": "keep", "weights_resampling": "bilinear", "weights_adapt": False},
        **{"weights_overlap": "refuse"},
        **{"freeze_trunk": False, "bias_only": False, "recompute": False, "compile": False, "cuda_graph": "auto"},
        **{"fp8": False, "flip": False},
    }


def test_data_are_whole_shuffled_and_of_224_pixels():
    found = defaults(ImageDataModule)
    del found["augment"]
    assert {name: value for name, value in found.items() if value is not None} == {
        **{"image_size": 224, "batch_size": 128, "decode_on_device": False, "fraction": 1, "sampler": "shuffled"},
        **{"on_error": "raise", "max_broken": 0.01},
    }
