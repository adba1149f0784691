"""Splits that a column of a table states: kept in the run folder, and held against the table afterwards."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from datamodules.manifest import Manifest
from tests.datamodules.test_manifest_split import keys, manifest, ready, root, write  # noqa: F401
from vit_lightning.errors import InputError


def run(folder: Path, verb: str = "fit", **options) -> Manifest:
    """Set up data as a run does whose folder is there."""
    data = manifest(folder, **options)
    data.run_folder = folder.parent / "run"
    data.run_folder.mkdir(exist_ok=True)
    data.trainer = SimpleNamespace(state=SimpleNamespace(fn=verb), is_global_zero=True)
    data.prepare_data()
    data.setup(verb)
    return data


DRAWS = {
    "val is drawn": (["train"] * 12 + ["test"] * 4, {}),
    "nothing is drawn": (["train"] * 8 + ["val"] * 4 + ["test"] * 4, {}),
    "test is drawn": (["train"] * 12 + ["val"] * 4, {"test_fraction": 0.25}),
    "both by patient": (["train"] * 12 + ["test"] * 4, {"group_column": "patient", "val_fraction": 0.3}),
}


@pytest.mark.parametrize(("splits", "options"), DRAWS.values(), ids=DRAWS)
def test_splits_of_a_column_are_kept_and_a_moved_row_is_an_error(root, splits, options):  # noqa: F811
    def table(splits: list[str]) -> None:
        rows = [f"{n}.png,{'ab'[n % 2]},{split},{n // 2}" for n, split in enumerate(splits)]
        write(root / "train.csv", "path,label,set,patient", rows)

    table(splits)
    before = run(root, **options)
    kept = (root.parent / "run/split.csv").read_text().splitlines()
    assert len(kept) == 17 and {line.split(",")[2] for line in kept[1:]} == {"train", "val", "test"}
    for verb in ("fit", "test", "validate"):
        again = run(root, verb, **options)
        assert keys(again) == keys(before)
        again.load_state_dict(before.state_dict())
    assert (root.parent / "run/split.csv").read_text().splitlines() == kept
    moved = int(keys(before)[0][0].removesuffix(".png"))
    for row, split in ((moved, splits[-1]), (moved ^ 1, splits[-1]), (15, "train"), (14, "train")):
        table([split if row in (place, place ^ 1) else old for place, old in enumerate(splits)])
        for verb in ("fit", "test"):
            with pytest.raises(
                InputError, match=r"train\.csv has \d+\.png in \w+ in row \d+, and .*split\.csv has it in"
            ):
                run(root, verb, **options)
    table(splits)
    assert keys(manifest_of_file(root, **options)) == keys(before)


@pytest.mark.parametrize(("splits", "options"), DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("turn", [1, -1, 5, 7])
def test_the_kept_table_has_each_image_in_its_split_wherever_its_row_is(root, splits, options, turn):  # noqa: F811
    """Training rows need not be the first ones."""
    places = [number * turn % 16 for number in range(16)]
    rows = [f"{n}.png,{'ab'[n % 2]},{splits[place]},{n // 2}" for n, place in enumerate(places)]
    if options.get("group_column"):
        rows = [row.rpartition(",")[0] + f",{place // 2}" for row, place in zip(rows, places, strict=True)]
    write(root / "train.csv", "path,label,set,patient", rows)
    found = {
        key: split
        for split, part in zip(("train", "val", "test"), keys(run(root, **options)), strict=True)
        for key in part
    }
    kept = [line.split(",") for line in (root.parent / "run/split.csv").read_text().splitlines()[1:]]
    assert {file: split for file, _, split in kept} == found and len(found) == 16


def manifest_of_file(folder: Path, **options) -> Manifest:
    return ready(folder, split_file=folder.parent / "run/split.csv", **options)


@pytest.mark.parametrize(("splits", "options"), DRAWS.values(), ids=DRAWS)
def test_rows_may_be_added_to_a_column_of_splits(root, splits, options):  # noqa: F811
    def table(splits: list[str], patient: int | None = None) -> None:
        rows = [f"{n}.png,{'ab'[n % 2]},{split},{n // 2}" for n, split in enumerate(splits)]
        rows += [] if patient is None else [f"39.png,b,train,{patient}"]
        write(root / "train.csv", "path,label,set,patient", rows)

    table(splits)
    before = run(root, **options)
    (root.parent / "run/config.yaml").write_text("")  # the run goes on from here
    for more in (["train"] * 2, ["train"] * 8, ["train"] * 2 + [splits[-1]] * 2):
        table(splits + more)
        for verb in ("fit", "test", "validate"):
            again = run(root, verb, **options)
            again.load_state_dict(before.state_dict())
            new = [f"{n + len(splits)}.png" for n, split in enumerate(more) if split == "train"]
            assert set(keys(again)[0]) == {*keys(before)[0], *new}
            assert [set(part) >= set(old) for part, old in zip(keys(again), keys(before), strict=True)] == [True] * 3
    if "group_column" in options:
        table(splits, patient=int(keys(before)[1][0].removesuffix(".png")) // 2)
        with pytest.raises(InputError, match=r"1 value of --data\.group_column patient has train and val images"):
            run(root, **options)
