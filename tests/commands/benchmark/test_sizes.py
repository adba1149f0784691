"""What is measured over sizes of images, and how the largest batch is foreseen."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.classifier import Classifier
from vit_lightning.commands.benchmark import sizes
from vit_lightning.commands.benchmark.contender import check_buildable, rebuild, resident_batch
from vit_lightning.commands.benchmark.rounds import BenchmarkRow
from vit_lightning.compute.cost import macs
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig
from vit_lightning.models.config import as_pair


def model(**facts) -> Classifier:
    net = NetConfig("mu/8", depth=3, channels=2, dropout=0.1)
    return Classifier(**{"net": net, "num_classes": 3, "image_size": (16, 24), "label_smoothing": 0.2} | facts)


def test_the_model_s_own_net_keeps_its_flags_and_others_come_as_their_names_say():
    made = sizes.models(model(), ["mu/8", "Ti/16", "R26x0.5"], [32, 20])
    assert [one.config.variant for one in made] == ["mu/8"] * 2 + ["Ti/16"] * 2 + ["R26x0.5"] * 2
    assert [as_pair(one.hparams.image_size) for one in made] == [(32, 32), (20, 20)] * 3
    assert [one.config.depth for one in made[::2]] == [3, 12, 8]
    assert [one.config.dropout for one in made[::2]] == [0.1, 0.0, 0.0]
    assert all(one.config.channels == 2 and one.hparams.num_classes == 3 for one in made)
    assert [one.config.crop_to_patch for one in made[::2]] == [True, True, False]
    for one in made:
        check_buildable(one)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, 0.5)], None),
        ([(4, 1.0), (8, None)], None),
        ([(4, 1.0), (8, 3.0)], 8 + 14),  # half a GiB each, and 7 of 10 are left beside 3
        ([(1, 9.0), (4, 1.0), (8, 3.0)], 8 + 14),  # the last two alone
        ([(4, 3.0), (8, 3.0)], None),
    ],
)
def test_the_largest_batch_is_foreseen_from_what_each_image_takes(monkeypatch, rows, expected):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10 * 2**30, 80 * 2**30))
    made = [BenchmarkRow("inference", "a", (8, 8), batch, memory_gib=memory) for batch, memory in rows]
    assert sizes._expected(made) == expected


@pytest.mark.parametrize(
    ("net", "cap", "expected"),
    [("mu/8", 10**9, (10**9, "(cap)")), ("R26x0.5", 10**7, (2796202, "(indices)")), ("R26x0.5", 99, (99, "(cap)"))],
)
def test_convolutions_are_given_fewer_values_than_2_to_the_31(net, cap, expected):
    """2,796,202 images of 2 x 16 x 24 values are the most below 2^31 values."""
    built = model(net=NetConfig(net, channels=2))
    built.configure_model()
    contender = SimpleNamespace(model=built, image_size=(16, 24))
    assert sizes._limit(contender, cap) == expected
    assert expected[1] == "(cap)" or (2796202 * 768 < 2**31 <= 2796203 * 768)


def test_the_fastest_batch_is_the_row_and_the_largest_stands_beside_it(monkeypatch):
    """Speeds rise up to batch 4; more than 11 images do not fit."""
    speeds = {1: 10.0, 2: 20.0, 4: 40.0, 8: 30.0}

    def timed(tasks, clock, rounds, seconds):
        (task,) = tasks
        assert (rounds, seconds) == (1, 1.0)
        task.build()
        task.row.rounds.append(speeds[task.row.batch])

    def task(measure: str, batch: int):
        if batch > 11:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return lambda steps: None

    monkeypatch.setattr(sizes, "alternate", timed)
    monkeypatch.setattr(sizes, "peak_flops", lambda trainer: 7.0)
    contender = SimpleNamespace(
        model=SimpleNamespace(net=torch.nn.Identity(), config=NetConfig(channels=3)),
        name="a",
        image_size=(8, 16),
        device=torch.device("cpu"),
        task=task,
        flops=lambda measure: {"inference": 5}[measure],
    )
    row = sizes._best_batch(None, contender, 100, 1.0, print)
    assert (row.batch, row.images_per_s, row.largest_batch, row.note) == (4, 40.0, 11, "")
    assert (row.net, row.image_size, row.flops, row.peak) == ("a", (8, 16), 5, 7.0)
    row = sizes._best_batch(None, contender, 4, 1.0, print)
    assert (row.batch, row.largest_batch, row.note) == (4, 4, "(cap)")


def test_a_resident_batch_has_the_model_s_channels_sides_and_classes():
    torch.manual_seed(0)
    images, labels = resident_batch(model(), 50, torch.device("cpu"))
    assert images.shape == (50, 2, 16, 24) and images.dtype == torch.uint8 and images.max() == 255
    assert set(labels.tolist()) == {0, 1, 2}


def test_a_model_is_rebuilt_with_its_recipe():
    one = rebuild(model(), image_size=32)
    assert (one.hparams.label_smoothing, one.config.depth, one.hparams.image_size) == (0.2, 3, 32)
    other = rebuild(model(), NetConfig("Ti/16"))
    assert (other.config.variant, other.config.depth, other.hparams.image_size) == ("Ti/16", 12, (16, 24))


def test_figures_end_as_drawings_do(tmp_path):
    with pytest.raises(InputError, match=r"ends in .png, .pdf or .svg"):
        sizes.check_figure(tmp_path / "x.gif")


def test_the_drawing_has_a_line_per_net_over_its_sizes(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib.figure")
    kept, whole = [], matplotlib.Figure.savefig
    monkeypatch.setattr(
        matplotlib.Figure, "savefig", lambda self, *words, **facts: kept.append(self) or whole(self, *words, **facts)
    )
    rows = [
        BenchmarkRow("inference", net, (size, 2 * size), 4, rounds=[speed], largest_batch=largest)
        for net, size, speed, largest in (("a", 16, 40.0, 64), ("a", 32, 10.0, 16), ("b", 16, 90.0, 99))
    ]
    rows.append(BenchmarkRow("inference", "b", (32, 64), 0, largest_batch=0))
    sizes.draw(rows, tmp_path / "x.svg")
    drawn = [{line.get_label(): line.get_xydata().tolist() for line in axes.get_lines()} for axes in kept[0].get_axes()]
    assert drawn == [
        {"a": [[16, 40], [32, 10]], "b": [[16, 90]]},
        {"a": [[16, 64], [32, 16]], "b": [[16, 99]]},
    ]
    assert [axes.get_ylabel() for axes in kept[0].get_axes()] == [
        "inference, images/s per device",
        "largest batch per device",
    ]


def test_flops_are_those_of_images_that_are_not_square():
    from vit_lightning.commands.benchmark.contender import Contender
    from vit_lightning.compute.cost import training_flops

    facts = NetConfig("mu/8", depth=3, channels=2, dropout=0.1), (16, 24), 3
    for freeze, bias_only in ((False, False), (True, False), (False, True)):
        tuned = model(freeze_trunk=freeze, bias_only=bias_only)
        contender = SimpleNamespace(model=tuned, image_size=(16, 24))
        assert Contender.flops(contender, "inference") == 2 * macs(*facts, computed=True)
        assert Contender.flops(contender, "train") == training_flops(*facts, freeze, True, bias_only)
