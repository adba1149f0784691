"""The model card: the net's true name, and names of classes that stay names."""

import re

import pytest

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.card import check_licence, write_card
from vit_lightning.weights.report import Report


def card(path, names=(), **fields) -> str:
    config = NetConfig(**{"variant": "mu/8"} | fields)
    report = Report("", "")
    report.class_names = list(names)
    write_card(build(config, 16, len(names) or 2), report, "safetensors", "other", 0.0, path / "README.md")
    return (path / "README.md").read_text()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "mu/8"),
        ({"depth": 2, "width": 16}, "mu/8 with depth 2, width 16"),
        (
            {"variant": "B/16", "depth": 1, "width": 48, "mlp": 64, "heads": 3},
            "B/16 with depth 1, width 48, mlp 64, heads 3",
        ),
        ({"pool": "gap"}, "mu/8"),
    ],
)
def test_a_net_is_called_what_it_is(tmp_path, fields, name):
    text = card(tmp_path, **fields)
    assert f"# {name}, 2 classes" in text and f"| variant | {name} |" in text


def test_settings_have_their_whole_names(tmp_path):
    report = Report("", "")
    inside = {"class_path": "my.Crop", "init_args": {"size": 8, "inner": {"size": 4}}}
    report.training = {"recipe": {"optim": {"lr": 0.1}, "loss": "softmax"}, "data": {"seen": inside, "size": 16}}
    write_card(build(NetConfig(variant="mu/8"), 16, 2), report, "safetensors", "other", 0.0, tmp_path / "README.md")
    lines = (tmp_path / "README.md").read_text().partition("## Recipe")[2].splitlines()
    cells = dict(line.strip("| ").split(" | ") for line in lines if line.startswith("| ") and line != "| | |")
    assert cells == {
        "optim.lr": "0.1",
        "loss": '"softmax"',
        "seen.class_path": '"my.Crop"',
        "seen.init_args.size": "8",
        "seen.init_args.inner.size": "4",
        "size": "16",
    }


def test_names_of_classes_are_text(tmp_path):
    names = [
        "cat",
        "<script>alert(1)</script>",
        "two\nlines\n# title",
        "x" * 5000,
        "a|b",
        "[go](http://x)",
        "\udcff",
        "b_c",
    ]
    text = card(tmp_path, names)
    lines = text.partition("## Classes\n\n")[2].splitlines()
    assert len(lines) == len(names)
    assert [int(re.match(r"(\d+)\. ", line)[1]) for line in lines] == list(range(len(names)))
    assert lines[0] == "0. cat" and "<" not in text.partition("## Classes")[2] and len(lines[3]) < 300
    assert lines[2] == r"2. two lines \# title" and lines[5] == r"5. \[go\](http://x)" and lines[7] == r"7. b\_c"


@pytest.mark.parametrize("licence", ["mit\n---\nevil: 1", "", "mit: 1", "a  b", "[mit]"])
def test_what_is_no_identifier_of_a_licence_is_refused(licence):
    with pytest.raises(InputError, match=r"--licence .* is no identifier; give one such as apache-2\.0"):
        check_licence(licence)


@pytest.mark.parametrize("licence", ["other", "apache-2.0", "cc-by-nc-4.0", "Apache License 2.0"])
def test_identifiers_of_licences_are_taken(licence):
    check_licence(licence)
