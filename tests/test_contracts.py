"""Contracts are told by what a class offers; our own classes keep those that others ask of them."""

from types import SimpleNamespace

import pytest

from datamodules.digits import Digits
from vit_lightning import contracts
from vit_lightning.callbacks.predictions import Predictions
from vit_lightning.classifier import Classifier
from vit_lightning.contracts import (
    ImageData,
    KnowsPixels,
    KnowsRun,
    LogsScores,
    PredictsFrom,
    RecipeTrained,
    ShowsFeatures,
    SmoothsTargets,
)
from vit_lightning.data import ImageDataModule
from vit_lightning.masked_patch import MaskedPatch

OFFERED = {
    "RecipeTrained": (
        "config",
        "schedule",
        "weights",
        "gradient_norms",
        "objective",
        "engine",
        "score_names",
        "smooth",
    ),
    "LogsScores": ("score_names",),
    "SmoothsTargets": ("smooth",),
    "KnowsPixels": ("pixel_facts",),
    "KnowsRun": ("run_folder", "ignores_split"),
    "PredictsFrom": ("predict_from", "predict_set"),
    "ShowsFeatures": ("wants_features",),
    "ImageData": ("batch_size", "train_set", "further_sets", "class_names"),
}


@pytest.mark.parametrize("name", OFFERED)
def test_a_contract_is_kept_by_what_offers_all_of_it(name):
    contract, offered = getattr(contracts, name), dict.fromkeys(OFFERED[name], print)
    assert isinstance(SimpleNamespace(**offered), contract)
    for lacking in offered:
        assert not isinstance(SimpleNamespace(**{key: print for key in offered if key != lacking}), contract)


def test_our_models_and_data_keep_the_contracts_that_others_ask_of_them():
    model = Classifier()
    for contract in (LogsScores, KnowsPixels, ShowsFeatures, SmoothsTargets):
        assert isinstance(model, contract), contract
    data = Digits()
    assert isinstance(data, ImageData) and isinstance(data, ImageDataModule)
    assert isinstance(MaskedPatch(), LogsScores) and not isinstance(Predictions, ImageData)
    assert not isinstance(data, KnowsPixels | ShowsFeatures | RecipeTrained) and isinstance(
        data, KnowsRun | PredictsFrom
    )
