"""Mistakes with their images, from the data of a run."""

import numpy as np
import pytest
from PIL import Image

from tests.commands.report.conftest import write_csv
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.examples import SHOWN, examples
from vit_lightning.errors import InputError

HEADER = ["image", "label", "predicted", "probability"]


@pytest.fixture
def photographed(make_run, tmp_path):
    """A run on photographs whose root is stated from where it was started."""
    for split in ("train", "val", "test"):
        for name in ("cat", "dog"):
            folder = tmp_path / "there" / "photos" / split / name
            folder.mkdir(parents=True)
            for number in range(10):
                Image.fromarray(np.full((20, 24, 3), 10 * number, np.uint8)).save(folder / f"{number}.png")
    data = {"root": "photos", "image_size": [16, 16], "num_workers": 0}
    folder = make_run(data__class_path="datamodules.folder.ImageFolder", data__init_args=data)
    (folder / "env.json").write_text(f'{{"folder": "{tmp_path / "there"}"}}')
    return folder


def test_images_are_found_from_where_the_run_was_started(photographed):
    rows = [[f"{name}/{number}.png", name, "dog", 0.9] for name in ("cat", "dog") for number in range(9)]
    write_csv(photographed / "test.mistakes.csv", [HEADER, ["gone.png", "cat", "dog", 0.95], *rows])
    run = collect(photographed)
    keys = [mistake.image for mistake in run.mistakes]
    found = examples(run, None)
    assert len(found) == SHOWN - 1 and [one.mistake.image for one in found] == keys[1:SHOWN]
    assert all(one.picture.startswith("data:image/png;base64,") and not one.rollout for one in found)
    assert len({one.picture for one in found}) == 9  # the two classes have the same pictures


def test_names_of_no_image_are_refused(photographed):
    write_csv(photographed / "test.mistakes.csv", [HEADER, ["gone.png", "cat", "dog", 0.95]])
    with pytest.raises(InputError, match="none of the images has the name of a mistake"):
        examples(collect(photographed), None)


@pytest.mark.parametrize("config", [{}, {"class_path": "os.system", "init_args": {"command": "false"}}, "Digits"])
def test_what_is_no_data_is_refused(make_run, config):
    folder = make_run()
    run = collect(folder)
    run.config["data"] = config
    with pytest.raises(Exception, match=r"names no data|os\.system"):  # of jsonargparse's choice
        examples(run, None)
