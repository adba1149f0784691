"""What somebody who has made none of the runs reads in their pages: nothing is hidden, and nothing said twice."""

import json

import yaml

from vit_lightning.commands.report import comparison, settings, wording
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.page import page_of_runs

ARROW = "\N{RIGHTWARDS ARROW}"


def resume(folder, epochs, step=10):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["trainer"]["max_epochs"] = epochs
    (folder / "config.resume-1.yaml").write_text(yaml.safe_dump(config))
    first = "net      a net\n"
    (folder / "plan.txt").write_text(f"{first}\n{first}resume   runs/at step 3/last.ckpt at step {step}, in epoch 2\n")


def test_a_resume_is_a_difference_to_a_run_in_one_go(make_run, page):
    folders = [make_run("pets/0", trainer__max_epochs=1), make_run("pets/1", trainer__max_epochs=2)]
    resume(folders[0], epochs=2)
    runs = [collect(folder) for folder in folders]
    (row,) = comparison.different_settings(runs)
    assert (row.name, [cell.said for cell in row.cells]) == (
        "resumes",
        [f"resumed once after optimiser step 10; epochs: 1 {ARROW} 2", "not resumed"],
    )
    assert wording.sentence(runs[0]).endswith(" after 20 optimiser steps, resumed once after optimiser step 10.")
    assert "resumed" not in wording.sentence(runs[1])
    assert settings.ancestry(runs[0])[0] == [
        "The run began from scratch.",
        "It was resumed once after optimiser step 10.",
    ]
    text = page(page_of_runs(runs)).text
    assert "There is nothing to show" not in text and "not resumed" in text


def test_resumes_are_counted_by_what_is_left_of_them(make_run):
    folder = make_run()
    (folder / "config.yaml").unlink()
    for number in (1, 2):
        (folder / f"env.resume-{number}.json").write_text(json.dumps({"device": "cpu"}))
    assert settings.resumes_told(collect(folder)) == "resumed twice"
    for path in folder.glob("env*.json"):
        path.unlink()
    assert settings.resumes_told(collect(folder)) == "not known"


def test_a_seed_of_0_is_a_seed(make_run):
    runs = [collect(make_run(f"pets/{seed}", seed_everything=seed)) for seed in (0, 4)]
    told = [settings.told_by(run) for run in runs]
    assert settings.differing(told) == [("seed", ["0", "4"])]


def test_a_table_of_classes_that_is_cut_says_how_many_it_lacks(make_run):
    folder = make_run()
    table = folder / "test.classes.csv"
    header, first, *_ = table.read_text().splitlines(keepends=True)
    for content, lacking in ((header, 3), (header + first[: len(first) // 2], 3), (header + first, 2)):
        table.write_text(content)
        assert any(note.startswith(f"test.classes.csv lacks {lacking} of 3 classes;") for note in collect(folder).notes)
