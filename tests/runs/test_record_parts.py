"""What a run folder keeps of its settings, and which of them are compared when it goes on."""

import json
from types import SimpleNamespace

import pytest
import torch
import yaml

from vit_lightning.runs import record
from vit_lightning.runs.record import LOADING, TRAINER, RunRecord, of_training

CONFIG = {
    "model": {"class_path": "M"},
    "data": {"class_path": "Pets", "init_args": {"root": "x", "batch_size": 8, "num_workers": 3, "cache": None}},
    "trainer": {"max_epochs": 3, "precision": "bf16-mixed", "logger": True},
}


def recorded(folder, config: dict = CONFIG) -> RunRecord:
    asked: list[bool] = []
    parser = SimpleNamespace(dump=lambda given, skip_none: asked.append(skip_none) or yaml.safe_dump(given))
    found = RunRecord(parser, config, folder)
    assert asked == [False]  # a null is a setting too
    return found


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    facts = {"command": ["ü"]}
    monkeypatch.setattr(record, "environment", lambda device, name: facts | {"device": device, "device_name": name})


def names(folder) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_nothing_is_written_before_the_first_batch_and_nothing_twice(tmp_path):
    model, one = SimpleNamespace(device=torch.device("meta", 1)), recorded(tmp_path)
    assert names(tmp_path) == []
    for batch in range(3):
        one.on_train_batch_start(None, model, None, batch)
    assert names(tmp_path) == ["config.yaml", "env.json"]
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == CONFIG
    text = (tmp_path / "env.json").read_text()
    facts = {"device": "meta:1", "device_name": "meta", "command": ["ü"]}
    assert json.loads(text) == facts and text.endswith("}\n")


def test_each_further_part_has_its_number(tmp_path):
    for part in range(3):
        recorded(tmp_path, CONFIG | {"part": part}).on_train_batch_start(
            None, SimpleNamespace(device=torch.device("cpu")), None, 0
        )
    assert names(tmp_path) == [
        *("config.resume-1.yaml", "config.resume-2.yaml", "config.yaml"),
        *("env.json", "env.resume-1.json", "env.resume-2.json"),
    ]
    assert yaml.safe_load((tmp_path / "config.resume-2.yaml").read_text())["part"] == 2


def test_what_is_compared_decides_what_a_run_learns():
    found = of_training(CONFIG)
    assert found["data"] == {"class_path": "Pets", "root": "x", "batch_size": 8}
    assert found["trainer"] == dict.fromkeys(TRAINER) | {"max_epochs": 3, "precision": "bf16-mixed"}
    assert of_training({}) == {"data": {"class_path": None}, "trainer": dict.fromkeys(TRAINER)}
    assert set(LOADING) == {"num_workers", "in_memory", "cache", "cache_limit", "verify", "download"}
    assert set(TRAINER) == {
        *("accelerator", "devices", "num_nodes", "strategy", "precision", "accumulate_grad_batches"),
        *("gradient_clip_val", "gradient_clip_algorithm", "max_epochs", "max_steps", "max_time"),
        *("limit_train_batches", "overfit_batches"),
    }


def test_a_resume_is_compared_with_the_last_part(tmp_path, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(record, "rank_zero_info", said.append)
    recorded(tmp_path).on_load_checkpoint(None, None, {})
    assert said == []
    model = SimpleNamespace(device=torch.device("cpu"))
    for epochs in (1, 2):
        recorded(tmp_path, CONFIG | {"trainer": {"max_epochs": epochs}}).on_train_batch_start(None, model, None, 0)
    recorded(tmp_path, CONFIG | {"trainer": {"max_epochs": 3}}).on_load_checkpoint(None, None, {})
    assert said == ["differs from the checkpoint: trainer.max_epochs: 2 -> 3"]
