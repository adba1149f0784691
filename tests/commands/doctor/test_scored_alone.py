"""`doctor RUN --data.test TABLE` looks at what `test RUN` with these flags would read, and at nothing else."""

import json

import numpy as np
import pytest
from PIL import Image

from vit_lightning.files import write_atomically

NET = ("--model.net.variant", "mu/8", "--model.optim.lr", 0.01, "--trainer.accelerator", "cpu")
SHAPE = ("--data.image_size", 16, "--data.batch_size", 4, "--data.num_workers", 0)
DEEP = ("--data.channels", 1, "--data.window", "auto")
OTHER = ("--data.root", "site6", "--data.test", "labels.csv")


def site(folder, names, scale=1, column="") -> None:
    """Write films of 12 bits times a scale, and a table of them."""
    folder.mkdir()
    chance, lines = np.random.default_rng(0), [f"path,label{',fold' * bool(column)}"]
    for number in range(24):
        values = chance.integers(800, 2600, (16, 16)) * scale
        Image.fromarray(values.astype(np.uint16)).save(folder / f"{number}.png")
        fold = f",{('train', 'val')[number // 2 % 2]}" * bool(column)
        lines.append(f"{number}.png,{names[number % len(names)]}{fold}")
    write_atomically(folder / "labels.csv", "\n".join(lines) + "\n")


@pytest.fixture
def run(app, tmp_path):
    site(tmp_path / "site1", ["effusion", "nodule"], column="fold")
    data = ("--data", "Manifest", "--data.root", "site1", "--data.train", "labels.csv", "--data.split_column", "fold")
    done = app("fit", *NET, *data, *SHAPE, *DEEP, "--data.cache", "cache", "--name", "site", "--trainer.max_epochs", 1)
    assert done.code == 0, done.err
    return tmp_path / "runs/site/0"


def found(app, *flags) -> tuple[int, dict, str]:
    done = app("doctor", *flags, "--json", "found.json")
    return done.code, json.loads(open("found.json").read()) if done.code == 0 else {}, done.out + done.err


def test_a_test_table_of_another_site_is_looked_at_alone(app, run, tmp_path):
    site(tmp_path / "site6", ["Effusion", "Nodule"], scale=16)
    code, facts, said = found(app, run, *OTHER)
    assert code == 0, said
    assert facts["images"] == {"test": {"images": 24, "unreadable": 0}} and "rehearse" not in said
    (clipped,) = [one for one in facts["findings"] if one["topic"] == "depth"]
    assert "clips more than half of the values of 24 test images, which lie from" in clipped["text"]
    assert app("test", run, *OTHER).code == 0


def test_classes_that_the_net_has_not_are_refused_as_by_test(app, run, tmp_path):
    site(tmp_path / "site6", ["effusion", "nodule", "abscess"])
    sentences = [app(verb, run, *OTHER).err.strip().splitlines()[-1] for verb in ("doctor", "test")]
    assert "abscess" in sentences[0] and sentences[0] == sentences[1]


def test_a_validation_table_is_looked_at_likewise(app, run, tmp_path):
    site(tmp_path / "site6", ["effusion", "nodule"])
    code, facts, said = found(app, run, "--data.root", "site6", "--data.val", "labels.csv")
    assert code == 0 and facts["images"] == {"validation": {"images": 24, "unreadable": 0}}, said


def test_a_run_alone_is_looked_at_as_a_fit(app, run):
    code, facts, said = found(app, run)
    assert code == 0 and facts["images"].keys() == {"training", "validation"} and "rehearse" in said, said
