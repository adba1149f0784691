"""What the verb `benchmark` makes of its flags, without measuring anything."""

from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.classifier import Classifier
from vit_lightning.commands.benchmark import verb
from vit_lightning.commands.benchmark.rounds import BenchmarkRow
from vit_lightning.commands.benchmark.verb import _chosen, _names, _numbers, _refuse_unused, benchmark
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("[64,128]", [64, 128]), ("128, 64,128", [128, 64]), ("1", [1]), ("1000000", [1_000_000])],
)
def test_sides_keep_their_order_and_come_once(text, numbers):
    assert _numbers("sizes", text) == numbers


@pytest.mark.parametrize("text", ["0", "64,0", "-1,64", "1000001", "1000001,64", "64,x", "", "6.5"])
def test_a_side_beyond_the_limits_is_refused(text):
    with pytest.raises(InputError, match=rf"--sizes {text}: expected numbers from 1 to 1000000 in brackets"):
        _numbers("sizes", text)


def test_names_keep_their_order_and_come_once():
    assert _names("[Ti/16, B/16,Ti/16]", "own") == ["Ti/16", "B/16"]
    assert _names(None, "own") == ["own"] and _names("mu/8", "own") == ["mu/8"]
    figure12 = _names("figure12", "own")
    assert len(figure12) == len(set(figure12)) == 8 and {"B/16", "R50x1"} < set(figure12)


def test_measures_are_known_ones():
    assert _chosen("measure", "[data, train]", ("train", "fit", "data")) == ["data", "train"]
    with pytest.raises(InputError, match="--measure tain: choose from train, data"):
        _chosen("measure", "train,tain,dat", ("train", "data"))


DEFAULTS = {name: one.default for name, one in signature(benchmark).parameters.items()}
FLAGS = ("compare", "compare_compiled", "compare_loaders", "measure", "batches", "cap", "rounds")
FLAGS += ("sizes", "variants", "figure")
ALL = ["train", "inference", "fit", "data"]


def refused(chosen: list[str], **typed: object) -> str:
    """What is said of flags besides the defaults; nothing if they are taken."""
    try:
        _refuse_unused({name: DEFAULTS[name] for name in FLAGS} | typed, chosen)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("chosen", "typed"),
    [
        (ALL, {}),
        (["train"], {"compare": "Ti/16", "compare_compiled": False}),
        (["inference", "data"], {"compare": "Ti/16", "compare_loaders": True}),
        (["data"], {"compare_loaders": True, "rounds": 3}),
        (["fit"], {"batches": "auto", "cap": 8}),
        (["data", "inference"], {"batches": "auto"}),
        (ALL, {"sizes": "64", "variants": "B/16", "figure": Path("x.png"), "cap": 8}),
    ],
)
def test_flags_that_do_something_are_taken(chosen, typed):
    assert refused(chosen, **typed) == ""


@pytest.mark.parametrize(
    ("chosen", "typed", "said"),
    [
        (["fit", "data"], {"compare": "Ti/16"}, "--compare Ti/16 does nothing without train or inference"),
        (["train", "fit"], {"compare_loaders": True}, "--compare_loaders True does nothing without data"),
        (["data"], {"batches": "auto"}, "--batches auto does nothing without train, inference or fit"),
        (ALL, {"cap": 8}, "--cap 8 does nothing without --batches auto or --sizes"),
        (ALL, {"compare_compiled": False}, "--compare_compiled False does nothing without --compare"),
        (ALL, {"variants": "B/16"}, "--variants B/16 does nothing without --sizes"),
        (ALL, {"sizes": "64", "rounds": 3}, "--rounds 3 does nothing beside --sizes"),
        (ALL, {"sizes": "64", "batches": "auto"}, "--batches auto does nothing beside --sizes"),
    ],
)
def test_flags_that_do_nothing_are_refused(chosen, typed, said):
    assert refused(chosen, **typed).startswith(said)


class Measured:
    """Stands for the measurements: notes what it is asked for."""

    error: Exception | None = None
    rows: list[BenchmarkRow]

    def __init__(self, trainer, model, data, cap, rounds, seconds) -> None:
        self.model, self.rows, self.asked = "own", [], [("made", cap, rounds, seconds)]
        Measured.last = self

    def peer(self, name, compiled):
        return f"{name} {compiled}"

    def set_up(self, compares) -> None:
        self.asked.append(("set up", compares))

    @contextmanager
    def reported(self, json):
        self.asked.append(("json", json))
        yield

    def measure(self, what, peers, compares, auto) -> None:
        self.asked.append((what, peers, compares, auto))
        if self.error and what == "inference":
            raise self.error
        self.rows.append(BenchmarkRow(what, "own", (8, 8), 4))

    def sizes(self, models, json, figure) -> None:
        self.asked.append(("sizes", models, json, figure))
        if self.error:
            raise self.error


@pytest.fixture
def measured(monkeypatch):
    """Call the verb with flags; what was asked for, and which nets were built for a look."""
    monkeypatch.setattr(verb, "Measurements", Measured)
    monkeypatch.setattr(verb, "place_of", lambda trainer: "a place")
    built: list[str] = []
    monkeypatch.setattr(verb, "check_buildable", built.append)
    model = Classifier({"variant": "mu/8"}, num_classes=3, image_size=8)

    def call(device: str = "cpu", **flags: object) -> tuple[list, list[str]]:
        built.clear()
        trainer = SimpleNamespace(world_size=1, strategy=SimpleNamespace(root_device=torch.device(device)))
        benchmark(trainer, model, None, **flags)
        return Measured.last.asked, list(built)

    return call


def test_what_is_chosen_is_measured_in_one_order_beside_the_peers(measured):
    asked, built = measured(measure="[data,inference,train]", compare="[Ti/16,S/16]", compare_compiled=False)
    peers = ["Ti/16 False", "S/16 False"]
    assert asked == [
        ("made", 64, 5, 1.0),
        ("set up", False),
        ("json", None),
        *((what, peers, False, False) for what in ("train", "inference", "data")),
    ]
    assert built == ["own", *peers]


def test_data_alone_need_no_net_and_a_net_no_data(measured):
    asked, built = measured(measure="data", compare_loaders=True, rounds=1, seconds=0.5)
    assert asked == [("made", 64, 1, 0.5), ("set up", True), ("json", None), ("data", [], True, False)]
    assert built == []
    asked, built = measured(measure="fit", batches="auto", cap=8)
    assert asked == [("made", 8, 5, 1.0), ("json", None), ("fit", [], False, True)] and built == ["own"]


@pytest.mark.parametrize(("device", "cap"), [("cuda", 16384), ("cpu", 64), ("mps", 64)])
def test_the_largest_batch_to_try_is_that_of_the_device(measured, device, cap):
    assert measured(device)[0][0] == ("made", cap, 5, 1.0)


def test_sizes_take_the_place_of_all_else(measured, monkeypatch, tmp_path):
    monkeypatch.setattr(verb.input_sizes, "models", lambda *facts: [facts])
    monkeypatch.chdir(tmp_path)
    json = Path("b.json")
    asked, built = measured(sizes="[32,16]", json=json)
    models = [("own", ["mu/8"], [32, 16])]
    assert asked == [("made", 64, 5, 1.0), ("json", json), ("sizes", models, json, None)]
    assert built == models
    asked, _ = measured(sizes="16", variants="B/16,Ti/16", cap=2)
    assert asked[0][1] == 2 and asked[2][1] == [("own", ["B/16", "Ti/16"], [16])]


def test_exhausted_memory_names_the_last_row_and_other_errors_are_kept(measured, monkeypatch):
    monkeypatch.setattr(Measured, "error", torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(InputError, match="train with a batch of 4 does not fit in the memory of a place"):
        measured()
    monkeypatch.setattr(verb.input_sizes, "models", lambda *facts: [facts])
    with pytest.raises(InputError, match="--sizes 16: not even one image fits in the memory of a place"):
        measured(sizes="16", variants="mu/8")
    monkeypatch.setattr(Measured, "error", RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        measured()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"rounds": 0}, "--rounds 0, --seconds 1.0: expected a round or more"),
        ({"seconds": 0.0}, "--seconds 0.0"),
        ({"seconds": float("inf")}, "--seconds inf"),
        ({"cap": 0, "batches": "auto"}, "--cap 0: expected a batch of 1 image or more"),
    ],
)
def test_nothing_is_measured_in_no_time(measured, flags, said):
    with pytest.raises(InputError, match=said):
        measured(**flags)
    assert measured(rounds=1, seconds=1e-3)[0][0] == ("made", 64, 1, 1e-3)
