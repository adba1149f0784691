"""What a report says of files that were cut, hold something else, or tell of a run that ended before its time."""

import json
import warnings

import pytest
import torch

from vit_lightning.commands.report import examples, scores
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.page import page_of_run, page_of_runs
from vit_lightning.commands.report.pictures import pictures_of
from vit_lightning.inspection.drawing.style import printable


@pytest.mark.parametrize(("kind", "field"), [("classes", "classes"), ("mistakes", "mistakes")])
@pytest.mark.parametrize("cut", [1, 2, 7])
def test_the_torn_row_of_a_table_is_left_out_and_said(make_run, kind, field, cut):
    folder = make_run()
    whole = getattr(collect(folder), field)
    path = folder / f"test.{kind}.csv"
    path.write_bytes(path.read_bytes()[:-cut])
    run = collect(folder)
    assert getattr(run, field) == whole[:-1]
    assert run.notes == [
        f"{path.name} is damaged: 1 row could not be read, and is left out; python -m vit_lightning test runs/pets/0 "
        "writes it anew."
    ]


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_torn_matrix_is_left_out_whole(make_run, cut):
    folder = make_run()
    path = folder / "test.confusion.csv"
    path.write_bytes(path.read_bytes()[:-cut])
    run = collect(folder)
    assert run.confusion is None
    assert run.notes == [
        f"{path.name} is damaged (it is no square of 3 classes); it is left out; python -m vit_lightning test "
        "runs/pets/0 writes it anew."
    ]


def test_a_torn_list_of_confusions_lacks_its_last_row(make_run):
    folder = make_run()
    (folder / "test.confusion.csv").write_text("true,predicted,images\ncat,cat,12\ncat,dog,34\ndog,cat,5")
    run = collect(folder)
    assert run.confusion.names == ["cat", "dog"] and run.confusion.entries == [(0, 0, 12), (0, 1, 34)]
    assert len(run.notes) == 1 and "test.confusion.csv is damaged: 1 row could not be read" in run.notes[0]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("test.mistakes.csv", "image,lab", "(it has no column label and predicted and probability)"),
        ("test.classes.csv", "", "(it is empty)"),
        ("test.confusion.csv", "true,a,b\na,1,x\nb,0,1\n", "(a cell holds no number of images)"),
    ],
)
def test_why_a_table_is_left_out_is_said_in_words(make_run, name, content, said):
    folder = make_run()
    (folder / name).write_text(content)
    assert f"{name} is damaged {said}; it is left out; python -m vit_lightning test " in collect(folder).notes[0]


def test_what_a_fit_has_written_is_written_anew_by_no_command(make_run):
    folder = make_run()
    (folder / "env.json").write_text("{")
    assert collect(folder).notes[0].endswith("it is left out.")


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("test.json", "python -m vit_lightning test runs/pets/0 writes"),
        ("validate.json", "python -m vit_lightning validate runs/pets/0 writes"),
        ("test-2.json", "the call of test that wrote it writes"),
        ("test.mean.json", "the call of test that wrote it writes"),
    ],
)
@pytest.mark.parametrize(
    ("value", "said"),
    [("high", '"high"'), (True, "true"), (None, "null"), ([1], "[1]"), (float("nan"), "NaN"), (10**400, "1000000")],
    ids=["text", "truth", "none", "list", "nan", "huge"],
)
def test_a_score_that_is_no_number_is_said(make_run, name, again, value, said):
    folder = make_run()
    facts = {"scores": {"test/top1": value, "test/loss": 0.5}}
    (folder / name).write_text(json.dumps(facts))
    run = collect(folder)
    (note,) = run.notes
    assert note.startswith(f"{name}: test/top1 is {said}") and again in note
    assert "which is no number; it is left out; " in note
    assert run.scores[name.removesuffix(".json")]["scores"]["test/loss"] == 0.5
    assert all("top-1" not in row.name for row in scores.score_rows(run) if f"({name})" in row.of)


def test_scores_that_are_no_mapping_are_said(make_run):
    folder = make_run()
    (folder / "test.json").write_text('{"scores": [0.5]}')
    assert collect(folder).notes[0].startswith("test.json holds no scores by name; it is left out; ")


def nonfinite(loss="nan", records=("a.jpg", "b.jpg", "c.jpg", "d.jpg")):
    device = {"loss": loss, "batches": [6], "records": records and list(records)}
    return {"optimiser_step": 7, "epoch": 1, "devices": [device], "gradient_norms": {"head.weight": "nan"}}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            nonfinite(),
            "training loss of optimiser step 8 was not finite, in the batch of a.jpg, b.jpg, c.jpg and 1 more",
        ),
        (nonfinite(0.5, ("a.jpg",)), "training gradient of optimiser step 8 was not finite, in the batch of a.jpg"),
        (nonfinite(records=None), "training loss of optimiser step 8 was not finite"),
    ],
)
def test_the_head_of_a_page_says_that_a_run_ended_for_a_loss_that_is_not_finite(make_run, page, facts, said):
    folders = [make_run("pets/0"), make_run("pets/1")]
    (folders[0] / "nonfinite.json").write_text(json.dumps(facts))
    runs = [collect(folder) for folder in folders]
    whole = f"The run diverged and was ended: the {said}. This was seen after step 20."
    assert (runs[0].ended, runs[1].ended) == (whole, "")
    text = page(page_of_run(runs[0], with_images=False)).text
    assert whole in text[: text.index("Over all images")]
    assert page(page_of_runs(runs)).text.count(whole) == 1


@pytest.mark.parametrize("facts", [{}, {"devices": 3}, {"devices": [3, {"records": "x", "loss": []}]}])
def test_a_strange_file_of_what_was_not_finite_ends_no_report(make_run, facts):
    folder = make_run()
    (folder / "nonfinite.json").write_text(json.dumps(facts))
    if facts:
        assert collect(folder).ended.startswith("The run diverged and was ended: the training loss of a step that ")


def test_a_checkpoint_that_is_taken_for_another_is_one_note_and_no_warning(make_run, recwarn):
    folder = make_run()
    for name in ("last", "previous"):
        torch.save({"state_dict": {}}, folder / f"checkpoints/{name}.ckpt")
    path = folder / "checkpoints/last.ckpt"
    path.write_bytes(path.read_bytes()[:-30])
    run = collect(folder)
    pictures_of(run, with_images=True)
    assert not recwarn.list
    assert [note for note in run.notes if "last.ckpt is" in note] == [
        "last.ckpt is damaged: it does not hold what was written, and previous.ckpt is taken in its place."
    ]


def test_a_warning_of_the_net_becomes_a_note(make_run, monkeypatch, recwarn):
    def warn(run):
        warnings.warn("the net  is\nold", stacklevel=1)
        warnings.warn("the net is old", stacklevel=1)

    monkeypatch.setattr(examples, "net_of", warn)
    run = collect(make_run())
    run.mistakes = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        pictures_of(run, with_images=True)
    assert "the net is old." in run.notes and run.notes.count("the net is old.") == 1 and not recwarn.list


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("cat\x1b[31m", r"cat\x1b[31m"),
        ("a\x00b\x07", r"a\x00b\x07"),
        ("a\nb\tc", r"a\nb\tc"),
        ("owl\u202egnp", r"owl\u202egnp"),
        ("\u2066x\u2069\u200b", r"\u2066x\u2069\u200b"),
        ("\udcff", r"\xff"),
        ("Möwe 猫 \u3000", "Möwe 猫 \u3000"),
    ],
)
def test_signs_that_cannot_be_seen_are_escaped(make_run, page, name, shown):
    assert printable(name) == shown
    folder = make_run(classes=("dog", name.replace("\x00", ""), "cat"))
    text = page_of_run(collect(folder), with_images=False)
    assert shown.replace(r"\x00", "") in text and not set("\x00\x07\x1b\u202e\u2066\u2069\u200b\udcff") & set(text)
