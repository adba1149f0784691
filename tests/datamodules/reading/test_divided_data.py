"""Data that are divided here: what is drawn, what is kept of it, and which checkpoints go on with which split."""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from datamodules.reading.divided_data import DividedData
from datamodules.reading.drawn_split import TEST, TRAIN, VAL, digest, draw
from vit_lightning.data.subsets import hold_out
from vit_lightning.errors import InputError


class Photos:
    """Images of two classes, the fourth of each ten of the second."""

    def __init__(self, size: int, first: int = 0) -> None:
        self.labels = np.array([number % 10 == 3 for number in range(size)], int)
        self.keys = [f"{number + first:03d}.png" for number in range(size)]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> tuple[str, int]:
        return self.keys[number], int(self.labels[number])


class Data(DividedData):
    class_names = ("cat", "owl")
    num_classes = 2

    def setup(self, stage: str) -> None:
        raise NotImplementedError


def data(size: int = 100, verb: str | None = None, run: Path | None = None, **options) -> Data:
    made = Data(root=Path("/photos"), image_size=8, **options)
    made.train_set = Photos(size)
    made.run_folder = run
    if verb is not None:
        made.trainer = SimpleNamespace(state=SimpleNamespace(fn=verb), is_global_zero=True)
    return made


def divided(made: Data, **words) -> list[list[str] | None]:
    images = made.train_set
    made.divide(images.labels.tolist(), [made.class_names[label] for label in images.labels], **words)
    return parts(made)


def parts(made: Data) -> list[list[str] | None]:
    return [None if some is None else list(some.keys) for some in (made.train_set, made.val_set, made.test_set)]


def expected(size: int, shares: tuple[float, float, float], seed: int = 0) -> list[list[str] | None]:
    images = Photos(size)
    splits = draw(images.keys, images.labels.tolist(), shares, seed)
    found = [
        [key for key, split in zip(images.keys, splits, strict=True) if split == one] for one in (TRAIN, VAL, TEST)
    ]
    return [some or None for some in found]


# Drawing -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words", "shares"),
    [
        ({}, {"is_whole": True}, (0.7, 0.15, 0.15)),
        ({}, {}, (0.9, 0.1, 0.0)),
        ({"test_fraction": 0.3}, {}, (0.6, 0.1, 0.3)),
        ({"val_fraction": 0.2}, {"is_whole": True}, (0.65, 0.2, 0.15)),
        ({"val_fraction": 0.0}, {"is_whole": True}, (0.85, 0.0, 0.15)),
        ({"test_fraction": 0.3}, {"lacking": (False, True)}, (0.7, 0.0, 0.3)),
        ({"test_fraction": 0.3}, {"lacking": (True, False)}, (0.9, 0.1, 0.0)),
        ({"split_seed": 7}, {"is_whole": True}, (0.7, 0.15, 0.15)),
    ],
)
def test_what_is_drawn_and_kept(options, words, shares):
    made = data(**options)
    seed = options.get("split_seed", 0)
    assert divided(made, **words) == expected(100, shares, seed)
    counts = [len(some or ()) for some in parts(made)]
    facts = made.state_dict()["split"]
    assert [facts[name] for name in ("train", "val", "test")] == counts
    assert (facts["val_fraction"], facts["test_fraction"], facts["split_seed"]) == (*shares[1:], seed)
    named = [(key, split) for split, some in enumerate(parts(made)) for key in some or ()]
    assert facts["digest"] == digest(*zip(*named, strict=True))


def test_sets_that_are_there_stay():
    made = data(test_fraction=0.2)
    made.val_set = own = Photos(5, 500)
    divided(made, lacking=(False, True))
    assert made.val_set is own and len(made.train_set) == 80 and len(made.test_set) == 20


def test_groups_stay_together_and_files_of_one_name_too():
    made = data()
    groups = [f"g{number // 5}" for number in range(100)]
    for some in divided(made, is_whole=True, groups=groups):
        assert 5 * len({int(key[:3]) // 5 for key in some}) == len(some)
    again = data(40)
    again.train_set.keys = [f"{'./' * (number % 2)}{number // 2}.png" for number in range(40)]
    for some in divided(again, is_whole=True):
        assert {key for key in some if f"./{key}" in some} == {key for key in some if key[0] != "."}
        assert len(some) % 2 == 0


def test_what_is_said(caplog):
    made = data(20)
    made.train_set.labels[:] = 0
    made.train_set.labels[4] = 1
    with caplog.at_level("INFO"):
        divided(made, is_whole=True)
        made._say("split    once")
        made._say("split    once")
    said = (
        "14 training, 3 validation and 3 test images, drawn by class (val_fraction 0.15, test_fraction 0.15, split_seed"
    )
    assert said in caplog.text.splitlines()[0] and caplog.text.count("split    once") == 1
    small = "1 of 2 classes have no {} image, since they are small: owl"
    assert made.notices == [small.format("validation"), small.format("test")]


def test_without_training_images_nothing_is_divided():
    made = data()
    made.train_set = None
    made.hold_out()
    made.divide([], [])
    assert parts(made) == [None] * 3 and made.state_dict() == {}


# Holding out ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fraction", "share"), [(None, 0.1), (0.25, 0.25)])
def test_a_share_of_a_training_set_is_held_out(fraction, share):
    made, images = data(val_fraction=fraction), Photos(100)
    made.hold_out()
    rest, held = hold_out(images, share)
    assert parts(made) == [list(rest.keys), list(held.keys), None]
    facts = made.state_dict()["split"]
    assert facts == {
        "digest": digest(held.keys, [VAL] * len(held)),
        **{"train": len(rest), "val": len(held), "test": 0},
        **{"val_fraction": share, "test_fraction": 0.0, "split_seed": 0},
    }


def test_groups_are_held_out_whole_and_none_where_the_share_is_0():
    made = data()
    made.hold_out(np.arange(100) // 4)
    assert len(made.val_set) == 8 and len({int(key[:3]) // 4 for key in made.val_set.keys}) == 2
    none = data(val_fraction=0.0)
    none.hold_out()
    assert none.val_set is None and len(none.train_set) == 100 and none.state_dict() == {}


@pytest.mark.parametrize(
    ("options", "lacking", "wants"),
    [
        ({}, (True, True), False),
        ({"test_fraction": 0.1}, (True, True), True),
        ({"test_fraction": 0.1}, (True, False), False),
        ({"test_fraction": 0.0}, (True, True), False),
        ({"split_file": "split.csv"}, (False, False), True),
    ],
)
def test_when_a_training_set_is_divided_otherwise(tmp_path, monkeypatch, options, lacking, wants):
    monkeypatch.chdir(tmp_path)
    Path("split.csv").write_text("file,split\n")
    assert data(**options).wants_divided(lacking) is wants


@pytest.mark.parametrize("shares", [(0.5, 0.5), (1.0, None), (None, -0.1), (0.6, 0.6), (None, 1.0)])
def test_shares_that_leave_nothing(shares):
    with pytest.raises(InputError, match=r"--data\.(val|test)_fraction"):
        data(val_fraction=shares[0], test_fraction=shares[1])


# Tables --------------------------------------------------------------------------------------------------------------


def table(path: Path, splits: dict[str, str]) -> Path:
    path.write_text("\n".join(["file,split", *(f"{file},{split}" for file, split in splits.items())]))
    return path


def test_a_table_divides_in_place_of_drawing(tmp_path, caplog):
    path = table(tmp_path / "mine.csv", {"000.png": "val", "001.png": "train", "003.png": "test"})
    made = data(5, split_file=path)
    with caplog.at_level("INFO"):
        assert divided(made) == [["001.png"], ["000.png"], ["003.png"]]
    assert made.notices[0].startswith(f"{path} does not list 2 of the images of /photos, such as 002.png, which are")
    assert f"1 training, 1 validation and 1 test images, from {path}" in caplog.text
    facts = made.state_dict()["split"]
    assert (facts["val_fraction"], facts["test_fraction"], facts["split_seed"]) == (None, None, None)
    assert facts["digest"] == digest(["000.png", "001.png", "003.png"], [VAL, TRAIN, TEST])


def test_a_table_that_leaves_no_training_images(tmp_path):
    path = table(tmp_path / "mine.csv", {"000.png": "val"})
    with pytest.raises(InputError, match="the split of the 3 images of /photos leaves no training images"):
        divided(data(3, split_file=path))


@pytest.mark.parametrize(("split", "other"), [("val", "test"), ("test", "val")])
def test_a_table_puts_no_training_image_where_there_are_others(tmp_path, split, other):
    path = table(tmp_path / "mine.csv", {"000.png": "train", "001.png": split, "002.png": split})
    made = data(3, split_file=path)
    setattr(made, f"{split}_set", Photos(4, 100))
    said = f"mine.csv puts 2 training images in {split}, such as 001.png, and /photos has 4 {split} images of its own"
    with pytest.raises(InputError, match=said):
        divided(made)
    made = data(3, split_file=path)
    setattr(made, f"{other}_set", own := Photos(4, 100))
    divided(made)
    assert getattr(made, f"{other}_set") is own and len(getattr(made, f"{split}_set")) == 2


def test_a_table_that_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"--data\.split_file .*nowhere\.csv is missing"):
        divided(data(split_file=tmp_path / "nowhere.csv"))


def test_a_fit_keeps_its_split_and_goes_on_with_it(tmp_path, caplog):
    made = data(20, "fit", tmp_path)
    with caplog.at_level("INFO"):
        found = divided(made, is_whole=True)
    assert f"split_seed 0), kept in {tmp_path / 'split.csv'}" in caplog.text
    with (tmp_path / "split.csv").open() as file:
        rows = [(row["file"], row["class"], row["split"]) for row in csv.DictReader(file)]
    assert rows == [
        (key, "owl" if int(key[:3]) % 10 == 3 else "cat", name)
        for key in Photos(20).keys
        for name, some in zip(("train", "val", "test"), found, strict=True)
        if key in some
    ]
    again = data(20, "fit", tmp_path, split_seed=5)
    caplog.clear()
    with caplog.at_level("INFO"):
        assert divided(again, is_whole=True) == found
    assert f"test images, from {tmp_path / 'split.csv'}" in caplog.text and "kept in" not in caplog.text


@pytest.mark.parametrize("case", ["verb", "no trainer", "no folder", "a run", "another rank"])
def test_what_does_not_begin_a_run_keeps_nothing(tmp_path, case):
    made = data(20, {"verb": "validate", "no trainer": None}.get(case, "fit"), tmp_path)
    if case == "no folder":
        made.run_folder = tmp_path / "nowhere"
    if case == "a run":
        (tmp_path / "checkpoints").mkdir()
    if case == "another rank":
        made.trainer.is_global_zero = False
    divided(made, is_whole=True)
    assert not (tmp_path / "split.csv").exists() and not (tmp_path / "nowhere").exists()


# Checkpoints ---------------------------------------------------------------------------------------------------------


def resumed(then: dict, verb: str | None = "fit", size: int = 100, **options) -> Data:
    made = data(size, verb, **options)
    divided(made, is_whole=True)
    made.load_state_dict(then)
    return made


def test_the_same_split_goes_on_and_another_does_not():
    then = resumed({}).state_dict()
    assert resumed(then).state_dict() == then
    resumed(then, size=100, val_fraction=0.15, split_seed=0)
    said = (
        r"another split: --data.split_seed 4 \(the checkpoint's: 0\); give --data.val_fraction 0.15 "
        r"--data.test_fraction 0.15 --data.split_seed 0 and the same files, or the run's split.csv as --data.split_file"
    )
    with pytest.raises(InputError, match=said + "; or begin a new run$"):
        resumed(then, split_seed=4)
    with pytest.raises(InputError, match=said + "; to score other data whole, give --data.split_file null$"):
        resumed(then, verb="validate", split_seed=4)
    with pytest.raises(InputError, match=r"split: 6\d \+ 1\d \+ 1\d images here, 70 \+ 15 \+ 15 images in the check"):
        resumed(then, size=90)
    with pytest.raises(InputError, match=r"--data.val_fraction 0.2 \(the checkpoint's: 0.15\)"):
        resumed(then, val_fraction=0.2)


def test_a_flag_that_differs_is_refused_though_the_images_are_the_same():
    then = resumed({}).state_dict()
    then["split"]["split_seed"] = 3
    resumed(then)  # unset: no claim
    made = data(verb="fit", split_seed=1)
    made.split_facts = then["split"] | {"split_seed": 1}
    with pytest.raises(InputError, match=r"--data.split_seed 1 \(the checkpoint's: 3\)"):
        made.load_state_dict(then)


def test_a_checkpoint_without_a_split_says_nothing():
    for then in ({}, {"split": {}}, {"split": None}):
        resumed(then)
    data(verb="fit").load_state_dict({"split": {"digest": "x"}})


@pytest.mark.parametrize("verb", ["test", "predict", "validate", None])
def test_images_that_were_given_for_a_test_need_no_split(verb):
    """What validated has no part in it, unless the checkpoint's split had test images."""
    then = resumed({}).state_dict()["split"]
    for tested in (0, 15):
        made = data(90, verb)
        divided(made, is_whole=True)
        if verb in ("test", "predict") and not tested:
            made.load_state_dict({"split": then | {"test": tested}})
        else:
            with pytest.raises(InputError, match="another split"):
                made.load_state_dict({"split": then | {"test": tested}})


@pytest.mark.parametrize("verb", ["fit", "validate"])
def test_another_table_scores_and_does_not_train(tmp_path, verb, caplog):
    then = resumed({}).state_dict()
    path = table(tmp_path / "mine.csv", {"000.png": "val", "001.png": "train"})
    if verb == "fit":
        with pytest.raises(InputError, match="images here, 70 "):
            resumed(then, verb=verb, split_file=path)
    else:
        with caplog.at_level("INFO"):
            resumed(then, verb=verb, split_file=path)
        assert f"--data.split_file {path} is another split than the checkpoint's" in caplog.text


def test_a_table_that_a_checkpoint_was_trained_with_is_asked_for(tmp_path):
    path = table(tmp_path / "mine.csv", {"000.png": "val", "001.png": "train"})
    then = resumed({}, split_file=path).state_dict()
    with pytest.raises(InputError, match=r"give the same --data.split_file and the same files"):
        resumed(then)


# Other data than the run's -------------------------------------------------------------------------------------------


def other(tmp_path, verb: str, splits: dict[str, str], **options) -> Data:
    """Data of ten images beside a run whose table has these splits."""
    table(tmp_path / "split.csv", splits)
    return data(10, verb=verb, run=tmp_path, **options)


NONE_OF_THEM = {"else.png": "train", "other.png": "val"}


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_images_of_which_the_runs_table_lists_none_are_scored_whole(tmp_path, verb, caplog):
    made = other(tmp_path, verb, NONE_OF_THEM)
    with caplog.at_level("INFO"):
        found = divided(made)
    every = list(Photos(10).keys)
    assert found == [None, every, every] and made.state_dict() == {}
    said = f"split    none: all 10 images of /photos are scored, of which {tmp_path / 'split.csv'} lists none"
    assert said in caplog.text


@pytest.mark.parametrize("kept", ["val", "test"])
def test_sets_of_their_own_are_scored_as_they_are(tmp_path, kept):
    made = other(tmp_path, "test", NONE_OF_THEM)
    setattr(made, f"{kept}_set", Photos(3, 500))
    found, own = divided(made), list(Photos(3, 500).keys)
    every = list(Photos(10).keys)
    assert found == [None, *((own, every) if kept == "val" else (every, own))]


def test_a_fit_and_a_table_that_was_named_are_no_such_case(tmp_path):
    with pytest.raises(InputError, match=r"lacks 2 of the 2 images that .*split\.csv lists"):
        divided(other(tmp_path, "fit", NONE_OF_THEM))
    named = table(tmp_path / "named.csv", NONE_OF_THEM)
    with pytest.raises(InputError):
        divided(other(tmp_path, "test", NONE_OF_THEM, split_file=named))


def test_a_table_that_lists_some_or_nothing_divides_still(tmp_path):
    with pytest.raises(InputError, match=r"split\.csv"):
        divided(other(tmp_path, "test", {"000.png": "train", "else.png": "val"}))
    with pytest.raises(InputError, match=r"split\.csv"):
        divided(other(tmp_path, "test", {}))


def test_a_split_that_is_left_out_of_account_scores_all(tmp_path, caplog):
    listed = dict.fromkeys(Photos(10).keys, "train")
    made = other(tmp_path, "test", listed)
    made.ignores_split = True
    with caplog.at_level("INFO"):
        assert divided(made)[1:] == [list(listed)] * 2
    assert "all 10 images of /photos are scored" in caplog.text and "lists none" not in caplog.text
    whole = other(tmp_path, "fit", listed)
    whole.ignores_split = True
    assert divided(whole, is_whole=True) == expected(10, (0.7, 0.15, 0.15))


def test_groups_are_counted_by_split(caplog):
    made = data()
    with caplog.at_level("INFO"):
        found = divided(made, is_whole=True, groups=[f"g{number // 5}" for number in range(100)], grouped_by="patient")
    counts = " + ".join(str(len({int(key[:3]) // 5 for key in some})) for some in found)
    assert f"drawn by class, {counts} values of patient, (val_fraction 0.15" in caplog.text
