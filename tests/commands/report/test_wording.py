"""What a report says of a run in words."""

import json

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vit_lightning.commands.report import comparison, scores, wording
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.page import page_of_run
from vit_lightning.commands.report.run import Run
from vit_lightning.commands.report.settings import ancestry


def test_the_score_of_the_test_speaks_for_a_run(make_run):
    folder = make_run()
    run = collect(folder)
    assert scores.main_score(run).said == "80.00 %"
    (folder / "test.json").unlink()
    assert scores.main_score(collect(folder)).of == "best validation"


def test_of_validations_the_best_speaks_and_is_called_so(make_run):
    folder = make_run()
    (folder / "test.json").unlink()
    run = collect(folder)
    run.curves["val/top1"] = [(9, 0.8), (19, 0.75)]
    assert ": best validation top-1 accuracy 80.00 % after" in wording.sentence(run)
    (folder / "validate.json").write_text(json.dumps({"scores": {"val/top1": 0.625}}))
    assert ": validation top-1 accuracy 62.50 % after" in wording.sentence(collect(folder))


@pytest.mark.parametrize(
    ("line", "net", "row"),
    [
        (
            "net      S/14, 21,588,869 parameters (1,925 trained, 21,586,944 frozen), 0.89 GFLOPs per image forward",
            "S/14",
            "S/14, 21,588,869 parameters (1,925 trained, 21,586,944 frozen)",
        ),
        (
            "net      B/16 with depth 1, width 48, 9,123 parameters, 0.1 GFLOPs per image forward",
            "B/16 with depth 1, width 48",
            "B/16 with depth 1, width 48, 9,123 parameters",
        ),
        ("net      MyOwn, 40 parameters", "MyOwn", "MyOwn, 40 parameters"),
        ("net      something else", "A net", None),
        ("", "A net", None),
    ],
)
def test_a_net_that_came_from_weights_is_that_of_the_plan(make_run, line, net, row):
    folder = make_run(model__init_args={"net": {"variant": None}, "weights": "small.safetensors"})
    (folder / "plan.txt").write_text(f"{line}\nbatch    8 per device x 1 device x 1 = 8\n")
    run = collect(folder)
    assert wording.sentence(run).startswith(f"{net} fine-tuned on Synthetic at 32 px")
    assert dict(wording.recipe(run)).get("net") == row


@pytest.mark.parametrize(
    ("plan", "told", "said"),
    [
        ("device   cpu, precision 32-true", None, "32-true"),
        ("device   NVIDIA H200, precision bf16-mixed", None, "bf16-mixed"),
        ("", "16-mixed", "16-mixed"),
        ("", None, "the device's default"),
    ],
)
def test_the_precision_is_that_of_the_plan(make_run, plan, told, said):
    folder = make_run(trainer__precision=told)
    (folder / "plan.txt").write_text(f"{plan}\n")
    assert dict(wording.recipe(collect(folder)))["precision"] == said


def test_scores_of_other_data_are_named_and_speak_for_nothing(make_run):
    folder = make_run()
    (folder / "test.json").rename(folder / "test-2.json")
    run = collect(folder)
    assert [row.of for row in scores.score_rows(run)][:2] == ["test (test-2.json), 30 images"] * 2
    assert scores.main_score(run).of == "best validation"


def test_every_further_set_has_its_own_name_and_images(make_run):
    folder = make_run()
    names = {"loss": 0.4, "night": 0.5, "night/loss": 0.9, "real": 0.7, "top1": 0.8}  # each set stands together
    facts = {"scores": {f"test/{name}": value for name, value in names.items()}, "images": 30}
    (folder / "test.json").write_text(json.dumps(facts | {"further_images": {"night": 12}}))
    run = collect(folder)
    run.curves = {"val/top1": [(4, 0.75)], "val/night": [(4, 0.25)], "val/night/loss": [(4, 1.5)]}
    assert [row[:3] for row in scores.score_rows(run)] == [
        ("test, 30 images", "loss", "0.4"),
        ("test, 30 images", "top-1 accuracy", "80.00 %"),
        ("test on night, 12 images", "top-1 accuracy", "50.00 %"),
        ("test on night, 12 images", "loss", "0.9"),
        ("test on ReaL labels", "top-1 accuracy", "70.00 %"),
        *(
            row
            for which in ("best", "last")
            for row in (
                (f"{which} validation", "top-1 accuracy", "75.00 %"),
                (f"{which} validation on night", "top-1 accuracy", "25.00 %"),
                (f"{which} validation on night", "loss", "1.5"),
            )
        ),
    ]
    compared = [row.name for row in comparison.scores([run, run])]
    assert len(set(compared)) == len(compared) and "test on night top-1 accuracy" in compared


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, {"val/top1": 0.8, "val/ece": 0.3, "val/loss": 0.9}),
        ({"checkpoint": {"monitor": None, "mode": None}}, {"val/top1": 0.8, "val/ece": 0.3, "val/loss": 0.9}),
        ({"checkpoint": {"monitor": "val/loss", "mode": "min"}}, {"val/top1": 0.7, "val/ece": 0.2, "val/loss": 0.4}),
        ({"checkpoint": {"monitor": "val/odd", "mode": "min"}}, {}),
    ],
)
def test_best_validation_is_one_row_that_of_the_best_checkpoint(make_run, told, expected):
    run = collect(make_run(**told))
    values = {"val/top1": (0.7, 0.8, 0.8), "val/ece": (0.2, 0.3, 0.1), "val/loss": (0.4, 0.9, 0.5)}
    run.curves = {name: list(zip((4, 9, 14), each, strict=True)) for name, each in values.items()}
    rows = scores.score_rows(run)
    assert {row.metric.removeprefix("best "): row.value for row in rows if row.of == "best validation"} == expected
    assert {row.metric: row.value for row in rows if row.of == "last validation"} == {
        name: each[-1] for name, each in values.items()
    }


def test_cost_stands_beside_its_estimate(make_run):
    run = collect(make_run())
    run.curves |= {
        "cost/exaflops": [(20, 2.0)],
        "cost/estimated_exaflops": [(20, 1.5)],
        "cost/memory_gib": [(20, 3.0)],
        "cost/estimated_memory_gib": [(20, 2.5)],
    }
    assert dict(wording.cost(run))["compute"] == "2 exaFLOPs (estimated 1.5)"
    assert dict(wording.cost(run))["peak memory"] == "3 GiB"  # that of a process, which the estimate is not of
    run.environment["device"] = "cuda:0"
    assert dict(wording.cost(run))["peak memory"] == "3 GiB (estimated 2.5)"


def test_a_run_is_compared_with_the_run_of_its_weights(make_run):
    parent = make_run("base/0")
    (parent / "checkpoints" / "best.ckpt").touch()
    for source in (parent, parent / "checkpoints" / "best.ckpt"):
        child = collect(make_run(f"tuned/{source.name}", model__init_args__weights=str(source), seed_everything=5))
        about, changed = ancestry(child)
        assert about == ["The run began with the weights of runs/base/0; what differs from that run follows."]
        assert "seed: 3 \N{RIGHTWARDS ARROW} 5" in changed
        assert "fine-tuned on Synthetic" in wording.sentence(child)


@pytest.mark.parametrize("source", ["hf://owner/net", "x" * 5000, "a\0b", "~nobody/net.npz"])
def test_weights_of_no_run_have_no_settings(make_run, source):
    (about,), changed = ancestry(collect(make_run(model__init_args__weights=source)))
    assert about.startswith(f"The run began with the weights {source}") and changed == []


@pytest.mark.parametrize(
    ("size", "said"), [(32, "32 px"), ([32, 32], "32 px"), ([32, 48], "32 x 48 px"), ([{}], "{} px")]
)
def test_a_size_is_said_once(make_run, size, said):
    rows = dict(wording.recipe(collect(make_run(data__init_args={"image_size": size}))))
    assert rows["image size"] == said


def test_a_resumed_run_is_compared_with_its_part_before(make_run):
    folder = make_run()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["trainer"]["max_epochs"] = 9
    (folder / "config.resume-1.yaml").write_text(yaml.safe_dump(config))
    assert ancestry(collect(folder))[1] == ["epochs: 2 \N{RIGHTWARDS ARROW} 9"]


def test_runs_of_one_name_are_told_apart_by_their_folders(make_run, tmp_path):
    runs = [collect(make_run("a/pets/0")), collect(make_run("b/pets/0"))]
    assert comparison.names_of(runs) == [str(run.folder) for run in runs]


def test_the_lower_loss_is_the_better_one(make_run):
    runs = [collect(make_run("pets/0")), collect(make_run("pets/1"))]
    runs[1].scores["test"]["scores"]["test/loss"] = 0.1
    (loss,) = [row for row in comparison.scores(runs) if row.name == "test loss"]
    assert [cell.is_best for cell in loss.cells] == [False, True]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PARTS = (
    "model",
    "data",
    "trainer",
    "net",
    "optim",
    "schedule",
    "augment",
    "weights",
    "batch_size",
    "image_size",
    "lora",
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_config_ends_a_report(tmp_path_factory, data):
    names = st.sampled_from(("class_path", "init_args", *PARTS, "max_epochs", "precision"))
    parts = st.dictionaries(names, JSON, max_size=4) | JSON
    config = data.draw(st.dictionaries(st.sampled_from(PARTS[:3]), parts, max_size=3))
    facts = data.draw(st.dictionaries(st.sampled_from(("device", "versions", "command", "folder")), JSON))
    run = Run(tmp_path_factory.getbasetemp() / "a" / "0", [config], json.loads(json.dumps(facts)))
    run.scores = {"test": data.draw(st.dictionaries(st.sampled_from(("scores", "images")), JSON))}
    assert page_of_run(run, with_images=False)
    comparison.different_settings([run, run])
    comparison.scores([run, run])


def test_a_device_is_called_as_its_maker_calls_it(make_run):
    run = collect(make_run())
    run.environment["device"] = "cuda:0"
    assert dict(wording.environment(run))["device"] == "cuda:0"
    run.environment["device_name"] = "NVIDIA H200"
    assert dict(wording.environment(run))["device"] == "NVIDIA H200"


@pytest.mark.parametrize(("crop", "told"), [("inception", "crop area 0.35, 1"), ("pad", "")])
def test_the_area_of_a_crop_is_told_where_it_matters(make_run, crop, told):
    run = collect(make_run())
    run.config["data"]["init_args"]["augment"] = {"crop": crop, "crop_area": [0.35, 1.0]}
    said = dict(wording.recipe(run))["augmentation"]
    assert told in said and ("crop area" in said) == bool(told)


@pytest.mark.parametrize(
    ("facts", "of"),
    [
        ({}, "test, 30 images"),
        ({"checkpoint": "/runs/pets/0/checkpoints/best.ckpt"}, "test, 30 images"),
        ({"checkpoint": "/runs/pets/0/checkpoints/last.ckpt"}, "test (of last.ckpt), 30 images"),
        ({"without flip": {"test/top1": 0.7}}, "test (flipped too), 30 images"),
    ],
)
def test_scores_of_another_checkpoint_or_of_two_views_are_not_called_as_the_others(make_run, facts, of):
    folder = make_run()
    told = json.loads((folder / "test.json").read_text())
    (folder / "test.json").write_text(json.dumps(told | facts))
    (folder / "checkpoints/best.ckpt").touch()
    run = collect(folder)
    assert scores.score_rows(run)[0].of == of
    assert scores.main_score(run).of == of
