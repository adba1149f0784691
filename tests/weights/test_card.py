"""The model card: the net's true name, and names of classes that stay names."""

import re

import pytest

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.card import NO_HEAD, check_licence, write_card
from vit_lightning.weights.interface import PROBABILITIES
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


@pytest.mark.parametrize(
    ("to", "normalising", "use"),
    [
        ("onnx", "inside the program", "`model.onnx` is for onnxruntime. It takes `images`"),
        ("torch_export", "inside the program", "`torch.export.load('model.pt2').module()` is the program. It takes"),
        ("safetensors", "by the caller, with mean and std", "`net, report = vit_lightning.weights.load_net(folder)`"),
        ("huggingface", "by the image processor, with mean and std", "transformers' pipelines read images of 8 bits"),
    ],
)
def test_every_format_says_how_it_is_used_and_who_normalises(tmp_path, to, normalising, use):
    report = Report("/home/me/net.ckpt", "", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), window=(10.0, 4000.0))
    report.training = {"recipe": {"loss": "sigmoid"}, "steps": 70, "began with": "https://x.y/z.npz"}
    net = build(NetConfig("mu/8"), (16, 24), 2)
    write_card(net, report, to, "mit", 1.26e-6, tmp_path / "README.md", Augment(evaluation="center", zoom=1.5))
    text = (tmp_path / "README.md").read_text()
    head, _, body = text.removeprefix("---\n").partition("\n---\n")
    library = "transformers" if to == "huggingface" else "vit-lightning"
    assert head.splitlines() == [
        *("license: mit", f"library_name: {library}", "pipeline_tag: image-classification"),
        *("tags:", "- vision-transformer"),
    ]
    told = body.partition("## Use\n\n")[2].partition("\n\n## Recipe")[0]
    assert told.startswith(use) and told.endswith(PROBABILITIES["sigmoid"])
    assert ("until it just covers 24 x 36" in told) == (to in ("onnx", "torch_export"))
    rows = dict(re.findall(r"^\| (\S.*?) \| (.*) \|$", body, re.MULTILINE))
    statistics = {"mean": "(0.1, 0.2, 0.3)", "std": "(0.4, 0.5, 0.6)"} if "std" in normalising else {}
    assert {name: value for name, value in rows.items() if name not in ("parameters", "loss")} == statistics | {
        "variant": "mu/8",
        "image size": "16 x 24",
        "channels": "3",
        "window": "10 and 4000 become 0 and 1",
        "classes": "2",
        "normalisation": normalising,
        "began with": "https://x.y/z.npz",
        "trained steps": "70",
        "source": "net.ckpt",
        "largest relative difference from the trained net": "1.3e-06",
    }
    assert rows["parameters"] == f"{sum(one.numel() for one in net.parameters()):,}"
    assert body.index("## Use") < body.index("## Recipe") < body.index("## Data") < body.index("## Metrics")
    assert body.count("Not stated in the weights.") == 2 and "## Classes" not in body


def test_what_weights_do_not_say_is_not_made_up(tmp_path):
    text = card(tmp_path)
    for row in (
        *("| window | 8 bits |", "| mean | (0.5, 0.5, 0.5) |", "| trained steps | not stated |"),
        "| began with | random weights, or not stated |",
    ):
        assert row in text
    assert text.count("Not stated in the weights.") == 3 and "probabilit" not in text
    assert text.count("\n\n| | |\n|---|---|\n| variant | mu/8 |\n") == 1  # without which Markdown shows no table


@pytest.mark.parametrize("to", ["onnx", "huggingface"])
def test_a_net_without_a_head_gives_features(tmp_path, to):
    write_card(build(NetConfig("mu/8"), 16, 0), Report("", ""), to, "mit", 0.0, tmp_path / "README.md")
    text = (tmp_path / "README.md").read_text()
    assert "pipeline_tag: image-feature-extraction" in text and "image-classification" not in text
    assert text.partition("## Use")[2].partition("\n\n##")[0].endswith(NO_HEAD)


@pytest.mark.parametrize(("length", "shown"), [(200, "x" * 200), (201, f"{'x' * 200} ... (201 characters)")])
def test_a_long_value_is_cut_and_counted(tmp_path, length, shown):
    assert card(tmp_path, ["x" * length]).endswith(f"## Classes\n\n0. {shown}\n")


@pytest.mark.parametrize(
    ("channels", "window", "pipeline", "said"),
    [
        (3, None, True, "classifies images."),
        (1, None, False, "c = 1 and divides by 255"),
        (3, (0.0, 4095.0), False, "divides by 4095. Clip them to 0 and 4095 first; images of 8 bits are to be mul"),
        (1, (0.0, 510.0), False, "to 0 and 510 first; images of 8 bits are to be multiplied by 2."),
        (1, (-1000.0, 400.0), False, "-1000 and 400 become 0 and 1, and clip them"),
    ],
)
def test_a_pipeline_is_promised_where_it_shows_the_net_what_it_knows(tmp_path, channels, window, pipeline, said):
    net = build(NetConfig("mu/8", channels=channels), 16, 2)
    write_card(net, Report("", "", window=window), "huggingface", "mit", 0.0, tmp_path / "README.md")
    text = (tmp_path / "README.md").read_text()
    assert said in text and ("transformers.pipeline(" in text) == pipeline
