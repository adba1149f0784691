"""Files that hold two nets, an average and what was trained: which one is taken, and what the report says."""

import pytest
import torch
from safetensors.torch import save_file

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load_net
from vit_lightning.weights.averages import innermost, without_the_other
from vit_lightning.weights.layouts.tensor_mapping import to_theirs
from vit_lightning.weights.layouts.timm import mappings

TINY = {"width": 192, "depth": 1, "heads": 3, "mlp": 24, "patch": 4, "gelu": "exact"}


@pytest.fixture
def nets(randomise):
    """Tensors in timm's names of an averaged net and of the trained one."""
    config = build(NetConfig("Ti/4", **TINY), 8, 3).config
    both = (randomise(build(config, 8, 3), seed) for seed in (1, 2))
    return [to_theirs(mappings(config), net.state_dict(), config, "timm") for net in both]


def is_taken(tensors, path, **options) -> tuple[bool, Report]:
    net, report = load_net(path, **options)
    return torch.equal(net.norm.weight, tensors["norm.weight"]), report


@pytest.mark.parametrize(
    ("average", "trained"),
    [("state_dict_ema", "state_dict"), ("model_ema", "model"), ("teacher", "student"), ("target_encoder", "encoder")],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_the_average_is_taken_and_named(average, trained, is_first, nets, tmp_path):
    content = {average: nets[0], trained: nets[1], "epoch": 3, "optimizer": {"state": {0: {"step": torch.ones(1)}}}}
    torch.save(content if is_first else dict(reversed(content.items())), tmp_path / "w.pth")
    taken, report = is_taken(nets[0], tmp_path / "w.pth")
    assert taken
    assert f"{average} is the average and is taken, not {trained}: --raw (of fit: --model.weights_raw true)" in str(
        report
    )
    taken, report = is_taken(nets[1], tmp_path / "w.pth", raw=True)
    assert taken
    assert f"{trained} was trained and is taken, its average {average} is not" in str(report)


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
@pytest.mark.parametrize(
    ("average", "trained"),
    [("teacher.backbone.", "student.backbone."), ("model_ema.module.", "model."), ("model.ema.", "model.net.")],
)
def test_two_nets_in_one_dict(average, trained, ending, nets, tmp_path):
    tensors = {
        f"{part}{name}": tensor
        for part, net in ((trained, nets[1]), (average, nets[0]))
        for name, tensor in net.items()
    }
    save_file(tensors, tmp_path / "w.safetensors") if ending == "safetensors" else torch.save(
        tensors, tmp_path / "w.pth"
    )
    taken, report = is_taken(nets[0], tmp_path / f"w.{ending}")
    assert taken
    assert "is the average and is taken" in str(report)
    assert set(report.dropped) == {name for name in tensors if not name.startswith(average)}
    assert is_taken(nets[1], tmp_path / f"w.{ending}", raw=True)[0]


def test_raw_needs_an_average(nets, tmp_path):
    save_file(nets[0], tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"no averaged weights.*leave out raw"):
        load_net(tmp_path / "w.safetensors", raw=True)


def test_an_average_alone_is_read(nets, tmp_path):
    torch.save({"state_dict_ema": nets[0], "ema": {"decay": 0.9}}, tmp_path / "w.pth")
    taken, report = is_taken(nets[0], tmp_path / "w.pth")
    assert taken
    assert "is the average" not in str(report)


def test_fit_takes_either(app, nets, tmp_path):
    """Through the flag: the value that the head's neighbour has before any step, in the report of the run."""
    torch.save({"model_ema": nets[0], "model": nets[1]}, tmp_path / "w.pth")
    words = ["fit", "--data", "Synthetic", "--data.image_size", 8, "--data.batch_size", 4, "--trainer.max_steps", 1]
    words += ["--trainer.limit_val_batches", 0, "--model.weights", "w.pth", "--model.weights_head", "reset"]
    done = app(*words)
    assert done.code == 0, done.err
    assert "model_ema is the average and is taken" in done.out + done.err
    done = app(*words, "--model.weights_raw", "true")
    assert done.code == 0, done.err
    assert "model was trained and is taken" in done.out + done.err


ONE, TWO = {"w": torch.zeros(1)}, {"w": torch.ones(1)}


@pytest.mark.parametrize(
    ("average", "trained"),
    [
        ("state_dict", "current_model_state"),
        ("state_dict_ema", "state_dict"),
        ("model_ema", "model"),
        ("ema_state_dict", "state_dict"),
        ("ema", "model"),
        ("teacher", "student"),
        ("target_encoder", "encoder"),
    ],
)
def test_every_pair_of_dicts_is_an_average_and_what_was_trained(average, trained):
    both = {average: ONE, trained: TWO}
    for content in (both, dict(reversed(both.items())), {"module": both}):
        for raw, expected, taken in ((False, ONE, average), (True, TWO, trained)):
            found, notes = innermost(content, raw)
            assert found is expected and len(notes) == 1 and notes[0].startswith(f"{taken} ")


@pytest.mark.parametrize(
    ("average", "trained"),
    [
        ("teacher", "student"),
        ("teacher_model", "student_model"),
        ("model_ema", "model"),
        ("ema_model", "model"),
        ("ema", "model"),
        ("momentum_encoder", "base_encoder"),
        ("target_encoder", "encoder"),
    ],
)
@pytest.mark.parametrize("before", ["", "module."])
def test_every_pair_of_prefixes_is_an_average_and_what_was_trained(average, trained, before):
    names = [f"{before}{part}.{name}" for name in ("a", "b.c") for part in (trained, average)]
    for raw, other, kept in ((False, trained, average), (True, average, trained)):
        dropped, notes = without_the_other([*names, "steps"], raw)
        assert dropped == {f"{before}{other}.{name}": f"only {kept} is taken" for name in ("a", "b.c")}
        assert len(notes) == 1 and notes[0].startswith(f"{kept} ")
    assert without_the_other(names[::2], False) == without_the_other(names[1::2], False) == ({}, [])


@pytest.mark.parametrize(
    "name",
    [
        *("state_dict", "model", "teacher", "module", "model_state_dict"),
        *("state_dict_ema", "model_ema", "ema_state_dict", "ema", "student"),
    ],
)
def test_the_only_net_is_found_wherever_training_codes_put_it(name):
    for content in ({name: ONE, "epoch": 3}, {"model": {name: ONE}}, {"state_dict": {"module": {name: ONE}}}):
        assert innermost(content, False) == (ONE, [])
    assert innermost({name: {"steps": 3}, "other": torch.ones(1)}, False)[0].keys() == {name, "other"}
