"""What a report says where files of a run are gone, cut between two rows, or tell less than its checkpoints."""

import json

import pytest
import torch
import yaml

from tests.commands.report.conftest import metrics, write_csv
from vit_lightning.commands.report import collect as collecting
from vit_lightning.commands.report import comparison, examples, scores, settings, verb, wording
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.page import page_of_run
from vit_lightning.commands.report.run import Run
from vit_lightning.commands.report.state import State
from vit_lightning.runs.checkpoint_names import fingerprint

ARROW = "\N{RIGHTWARDS ARROW}"


def save(folder, name="last", steps=20, best=0.75, **facts):
    callbacks = {
        "ModelCheckpoint{'monitor': 'val/top1'}": {"monitor": "val/top1", "best_model_score": torch.tensor(best)},
        "Throughput": {"exaflops": 3.0, "device_hours": 0.5, "memory_gib": 2.0, "energy_kwh": 0.0},
    }
    torch.save({"global_step": steps, "callbacks": callbacks, **facts}, folder / f"checkpoints/{name}.ckpt")


def test_a_run_without_a_config_says_once_that_its_settings_are_not_known(make_run, page):
    folder = make_run()
    (folder / "config.yaml").unlink()
    run = collect(folder)
    assert run.notes == ["No config.yaml could be read, so the settings of the run are not known."]
    assert wording.sentence(run) == "A net: test top-1 accuracy 80.00 % after 20 optimiser steps."
    assert wording.recipe(run) == [] and settings.ancestry(run) == ([], [])
    text = page(page_of_run(run, with_images=False)).text
    assert "scratch" not in text and "unknown data" not in text and text.count("are not known") == 1


def test_a_run_whose_first_config_is_gone_does_not_say_what_it_began_with(make_run):
    folder = make_run()
    (folder / "config.yaml").rename(folder / "config.resume-1.yaml")
    run = collect(folder)
    assert run.notes == ["No config.yaml could be read, so what the run began with is not known."]
    assert wording.sentence(run).startswith("Ti/16 with patch 8 on Synthetic at 32 px: ")
    assert "weights" not in dict(wording.recipe(run)) and settings.ancestry(run)[0] == ["It was resumed once."]


def test_a_config_that_was_cut_names_what_it_lacks(make_run):
    folder = make_run()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump({"trainer": config["trainer"]}))
    run = collect(folder)
    assert run.notes == ["The config of the run is cut: it says nothing of model, data."]
    assert wording.sentence(run) == "A net: test top-1 accuracy 80.00 % after 20 optimiser steps."


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("another", "Not of the run as it is now: test.json is of another best.ckpt than it has."),
        ("gone", "Of which state of the net this is, is not known: test.json is not at hand."),
        ("cut", "Of which state of the net this is, is not known: test.json is not at hand."),
    ],
)
def test_tables_of_another_state_are_marked_where_they_stand(make_run, page, changed, said):
    folder = make_run()
    save(folder, "best")
    path = folder / "checkpoints/best.ckpt"
    facts = {"scores": {"test/top1": 0.8}, "checkpoint": str(path), "fingerprint": fingerprint(path)}
    (folder / "test.json").write_text(json.dumps(facts))
    assert scores.tables_are_of(collect(folder)) == ""
    if changed == "another":
        save(folder, "best", steps=19)
    elif changed == "gone":
        (folder / "test.json").unlink()
    else:
        (folder / "test.json").write_text('{"scores"')
    run = collect(folder)
    assert scores.tables_are_of(run) == said and len(scores.outdated(run)) == 1
    text = page(page_of_run(run, with_images=False)).text
    for heading in ("By class", "Confusion matrix", "Most frequent confusions", "The most confident mistakes"):
        assert f"{heading} {said}" in text


def test_a_resume_on_another_machine_shows_both(make_run):
    folder = make_run()
    first = json.loads((folder / "env.json").read_text())
    other = first | {"device": "cuda:0", "device_name": "NVIDIA H200", "versions": {"torch": "2.10"}}
    (folder / "env.resume-1.json").write_text(json.dumps(first))
    (folder / "env.resume-2.json").write_text(json.dumps(other | {"git_commit": "abc", "git_dirty": True}))
    rows = dict(wording.environment(collect(folder)))
    assert rows["device"] == "cpu; from resume 2 on: NVIDIA H200"
    assert rows["torch"] == "2.9; from resume 2 on: 2.10"
    assert rows["commit"] == "not known; from resume 2 on: abc with changes"
    assert rows["processors"] == "2"
    (folder / "env.resume-2.json").write_text("{")
    assert collect(folder).notes == ["env.resume-2.json is damaged (it is cut, or no JSON); it is left out."]


def test_a_command_is_shown_as_it_is_typed(make_run):
    run = collect(make_run())
    run.environment["command"] = ["/opt/vit_lightning/__main__.py", "fit", "-c", "my run.yaml"]
    assert dict(wording.environment(run))["command"] == "python -m vit_lightning fit -c 'my run.yaml'"


@pytest.mark.parametrize("log", ["gone", "empty", "header", "between two rows", "last validation alone"])
def test_what_a_log_has_lost_is_told_by_the_checkpoints(make_run, log):
    folder = make_run()
    (folder / "test.json").unlink()
    table = metrics()
    for row in (table[5], table[-1]):  # validations at steps 7 and 20
        row[-2:] = [0.9, 0.5] if row is table[5] else [0.5, 0.75]
    path = folder / "metrics.csv"
    write_csv(path, {"between two rows": table[:7], "last validation alone": table[:-1]}.get(log, table[:1]))
    if log in ("gone", "empty"):
        path.unlink() if log == "gone" else path.write_text("")
    save(folder)
    save(folder, "best")
    run = collect(folder)
    assert wording.sentence(run).endswith(
        ": best validation top-1 accuracy 75.00 % after 20 optimiser steps in 30 min 00 s of device time."
    )
    rows = dict(wording.cost(run))
    assert (rows["compute"], rows["device time"], rows["peak memory"]) == ("3 exaFLOPs", "30 min 00 s", "2 GiB")
    assert "energy" not in rows
    assert any("steps, best score and cost are said as the checkpoints have them." in note for note in run.notes)
    assert all(row.of != "last validation" for row in scores.score_rows(run))


def test_a_whole_log_is_believed(make_run):
    folder = make_run()
    save(folder)
    save(folder, "best")
    run = collect(folder)
    assert run.notes == [] and {row.of for row in scores.score_rows(run)} >= {"best validation", "last validation"}


def test_steps_of_which_nothing_tells_are_not_known(make_run):
    folder = make_run()
    (folder / "metrics.csv").unlink()
    assert wording.sentence(collect(folder)).endswith(" after an unknown number of optimiser steps.")
    write_csv(folder / "metrics.csv", metrics())
    (folder / "metrics.csv").write_text((folder / "metrics.csv").read_text()[:-3])
    assert wording.sentence(collect(folder)).endswith(" after at least 19 optimiser steps.")


def test_a_run_that_diverged_says_one_step_everywhere(make_run, page):
    folder = make_run()
    (folder / "test.json").unlink()
    write_csv(folder / "metrics.csv", [["lr", "step"], [0.1, 9]])
    (folder / "checkpoints/last.ckpt").unlink()
    (folder / "nonfinite.json").write_text(json.dumps({"optimiser_step": 2, "devices": [{"loss": "nan"}]}))
    run = collect(folder)
    assert wording.sentence(run).endswith(" on Synthetic at 32 px diverged at optimiser step 3.")
    assert run.ended.endswith("the training loss of optimiser step 3 was not finite. This was seen after step 10.")
    assert "fit -c" not in page(page_of_run(run, with_images=True)).text


@pytest.mark.parametrize("is_right", [True, False])
def test_a_table_of_no_mistakes_says_so_unless_others_contradict_it(make_run, page, is_right):
    folder = make_run()
    write_csv(folder / "test.mistakes.csv", [["image", "label", "predicted", "probability"]])
    if is_right:
        write_csv(folder / "test.confusion.csv", [["true", "a", "b"], ["a", 3, 0], ["b", 0, 2]])
    run = collect(folder)
    text = page(page_of_run(run, with_images=False)).text
    assert ("No image was predicted wrongly, by test.mistakes.csv." in text) == is_right
    assert any(note.startswith("test.mistakes.csv lacks its mistakes; ") for note in run.notes) != is_right


def test_a_table_of_classes_that_lacks_some_says_so(make_run):
    folder = make_run()
    lines = (folder / "test.classes.csv").read_text().splitlines(keepends=True)
    (folder / "test.classes.csv").write_text("".join(lines[:-1]))
    assert collect(folder).notes == [
        "test.classes.csv lacks 1 of 3 classes; python -m vit_lightning test runs/pets/0 writes it anew."
    ]


@pytest.mark.parametrize(("best", "said"), [(None, "is missing"), (b"PK", "is damaged")])
def test_the_net_is_that_of_a_checkpoint_that_is_whole(make_run, monkeypatch, best, said):
    folder = make_run()
    if best:
        (folder / "checkpoints/best.ckpt").write_bytes(best)
    monkeypatch.setattr(examples, "Predictor", lambda path: path)
    run = collect(folder)
    assert examples.net_of(run) == folder / "checkpoints/last.ckpt"
    assert run.notes[-1] == f"The figures of the net are of last.ckpt: best.ckpt {said}."


def test_a_run_without_checkpoints_says_so(make_run, page):
    folder = make_run()
    (folder / "checkpoints/last.ckpt").unlink()
    run = collect(folder)
    assert run.notes == ["The run has no checkpoint: its net cannot be opened or trained on."]
    assert "give last.ckpt" not in page(page_of_run(run, with_images=True)).text


def test_settings_are_said_in_words_and_those_that_mean_the_same_are_left_out():
    def config(**model):
        data = {"class_path": "a.Digits", "init_args": model.pop("data", {})}
        return {"model": {"class_path": "b.Classifier", "init_args": model}, "data": data}

    one = config(
        optim={"name": "adamw", "lr": 0.5, "momentum": 0.9},
        net={"pool": "gap", "depth": None},
        data={"image_size": 8, "num_workers": 0, "augment": {"crop": "none"}},
        schedule={"decay": "cosine", "timescale": 1, "allow_horizon_change": False},
    )
    two = config(
        optim={"name": "adamw", "lr": 0.25, "momentum": 0.8},
        net={"pool": "map", "depth": 12},
        data={"image_size": [8, 8], "num_workers": 4, "augment": {"flip": False, "rand_augment": [2, 9]}},
        schedule={"decay": "cosine", "timescale": 2, "allow_horizon_change": True},
    )
    found = settings.differing([settings.told(one, {}), settings.told(two, {})])
    assert found == [
        ("augmentation: rand augment", ["not set", "2, 9"]),
        ("pooling of the net", ["gap", "map"]),
        ("learning rate", ["0.5", "0.25"]),
    ]


def test_every_resume_says_what_it_changed(make_run):
    folder = make_run()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    for number, epochs in ((1, 2), (2, 9)):
        config["trainer"]["max_epochs"] = epochs
        (folder / f"config.resume-{number}.yaml").write_text(yaml.safe_dump(config | {"ckpt_path": "last"}))
    assert settings.ancestry(collect(folder)) == (
        ["The run began from scratch.", "It was resumed twice."],
        ["resume 1: no setting that changes what it learns", f"resume 2: epochs: 2 {ARROW} 9"],
    )


def test_settings_of_runs_that_are_not_known_are_no_difference(make_run):
    folders = [make_run(f"pets/{number}", trainer__max_epochs=number + 2) for number in range(3)]
    (folders[2] / "config.yaml").unlink()
    runs = [collect(folder) for folder in folders]
    (row,) = comparison.different_settings(runs)
    assert (row.name, [cell.said for cell in row.cells]) == ("epochs", ["2", "3", "not known"])
    assert comparison.without_settings(runs) == ["The settings of pets/2 are not known."]


def test_notes_name_files_of_the_run_and_no_parser(make_run, tmp_path):
    folder = make_run()
    for name, content in (("test.json", "{'a"), ("splits.json", "[1"), ("config.yaml", "a: [")):
        (folder / name).write_text(content)
    notes = " ".join(collect(folder).notes)
    assert str(tmp_path) not in notes and "line 1" not in notes and "Expecting" not in notes
    assert "test.json is damaged (it is cut, or no JSON)" in notes
    assert "config.yaml is damaged (it is cut, or no YAML)" in notes


def test_a_run_that_is_named_twice_is_said_once(make_run, capsys):
    folder = make_run()
    verb.write_report([folder, folder], images=False)
    lines = [line for line in capsys.readouterr().out.splitlines() if " times" in line]
    assert len(lines) == 1 and lines[0].endswith("is named 2 times, and is one run: it stands in the page once")
    assert (folder / "report.html").is_file()


def test_the_best_of_equal_images_is_marked_beside_a_run_of_others(make_run):
    folders = [make_run(f"pets/{number}") for number in range(3)]
    for folder, value, images in zip(folders, (0.7, 0.8, 0.9), (30, 30, 29), strict=True):
        (folder / "test.json").write_text(json.dumps({"scores": {"test/top1": value}, "images": images}))
    rows = comparison.scores([collect(folder) for folder in folders])
    (row,) = [row for row in rows if row.name == "test top-1 accuracy"]
    assert [cell.is_best for cell in row.cells] == [False, True, False]
    assert comparison.unlike_images([row]) == [
        "The best is marked among runs with the same images alone: test top-1 accuracy is of different images (number "
        "of images is 30 in pets/0 and pets/1, 29 in pets/2)."
    ]


@pytest.mark.parametrize(("steps", "is_behind"), [(59, False), (60, True)])
def test_a_log_is_behind_by_one_interval(tmp_path, steps, is_behind):
    run = Run(folder=tmp_path, curves={"train/loss": [(19, 1.0), (39, 0.5)]}, state=State(steps=steps))
    assert collecting.is_behind(run) == is_behind
