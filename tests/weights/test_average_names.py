"""Every pair of names under which training codes keep an average beside what was trained."""

import pytest
import torch

from vit_lightning.weights.averages import innermost, without_the_other

TRAINED, AVERAGE = {"w": torch.zeros(1)}, {"w": torch.ones(1)}
IN_DICTS = """
state_dict of current_model_state
state_dict_ema of state_dict
model_ema of model
ema_state_dict of state_dict
ema of model
teacher of student
target_encoder of encoder
"""
IN_NAMES = """
teacher of student
teacher_model of student_model
model_ema of model
ema_model of model
ema of model
momentum_encoder of base_encoder
target_encoder of encoder
"""
ALONE = [
    *("state_dict", "model", "teacher", "module", "model_state_dict"),
    *("state_dict_ema", "model_ema", "ema_state_dict", "ema", "student"),
]


def pairs(text: str) -> list[list[str]]:
    return [line.split(" of ") for line in text.strip().splitlines()]


def check_note(notes: list[str], average: str, trained: str, raw: bool) -> None:
    said = (
        f"{trained} was trained and is taken, its average {average} is not: leave out --raw"
        if raw
        else f"{average} is the average and is taken, not {trained}: --raw"
    )
    assert len(notes) == 1 and notes[0].startswith(said)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("average", "trained"), pairs(IN_DICTS))
def test_dicts(average, trained, raw):
    tensors, notes = innermost({"epoch": 3, trained: TRAINED, average: AVERAGE, "optimizer": {"lr": 1}}, raw)
    assert tensors is (TRAINED if raw else AVERAGE)
    check_note(notes, average, trained, raw)


@pytest.mark.parametrize("around", ["", "module.", "a.b."])
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("average", "trained"), pairs(IN_NAMES))
def test_names(average, trained, raw, around):
    names = [f"{around}{part}.{name}" for name in ("w", "b") for part in (trained, average)]
    dropped, notes = without_the_other([*names, "other.w"], raw)
    left_out, kept = (average, trained) if raw else (trained, average)
    assert dropped == {f"{around}{left_out}.{name}": f"only {kept} is taken" for name in ("w", "b")}
    check_note(notes, average, trained, raw)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", ALONE)
def test_a_net_alone_is_found_at_any_depth(name, raw):
    for content in ({name: AVERAGE}, {name: {"module": {"state_dict": AVERAGE}}, "epoch": 1, "other": {"lr": 1}}):
        assert innermost(content, raw) == (AVERAGE, [])
    assert innermost(AVERAGE, raw) == (AVERAGE, [])


def test_the_usual_place_of_a_net_comes_first():
    held = {name: {"w": torch.full((1,), float(place))} for place, name in enumerate(ALONE[:5])}
    for place in range(5):
        left = dict(reversed([*held.items()][place:]))
        left.pop("student", None)
        assert innermost(left, False)[0]["w"].item() == place


def test_a_pair_inside_a_dict_is_found_and_what_holds_no_tensors_is_no_net():
    inside = {"model": TRAINED, "model_ema": AVERAGE}
    assert innermost({"state_dict": inside, "args": {}}, False)[0] is AVERAGE
    tensors, notes = innermost({"model": TRAINED, "ema": {"decay": 0.9}}, False)
    assert tensors is TRAINED and notes == []


@pytest.mark.parametrize("names", [["ema.w"], ["model.w"], ["w"], ["modelx.w", "emax.w"], ["model", "ema.w"]])
def test_one_net_alone_stays_whole(names):
    assert without_the_other(names, False) == without_the_other(names, True) == ({}, [])
