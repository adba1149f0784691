"""What a caller of an exported program is told: how images are brought to size, and what their values mean."""

import pytest

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights.interface import evaluation_of, in_words, interface_of
from vit_lightning.weights.report import Report


def test_a_run_s_newest_config_says_how_its_validation_saw_images(tmp_path):
    assert evaluation_of(None) == evaluation_of(tmp_path) == Augment()
    config = "data: {init_args: {augment: {evaluation: %s, zoom: %s, crop: none, rotate: 5}}}\n"
    (tmp_path / "config.yaml").write_text(config % ("resize", 2.0))
    assert evaluation_of(tmp_path) == Augment(evaluation="resize", zoom=2.0)
    for number, zoom in ((2, 1.25), (10, 1.5)):
        (tmp_path / f"config.resume-{number}.yaml").write_text(config % ("center", zoom))
    assert evaluation_of(tmp_path) == Augment(evaluation="center", zoom=1.5)


@pytest.mark.parametrize("content", ["data: {}", "data: {init_args: {}}", "data: {init_args: {augment: null}}"])
def test_a_run_that_says_nothing_resizes_the_whole_image(tmp_path, content):
    (tmp_path / "config.yaml").write_text(content + "\n")
    assert evaluation_of(tmp_path) == Augment()


@pytest.mark.parametrize("content", ["data: 3", "model: {}", "[1]", "data: {init_args: {augment: {zoom: 99}}}", "a: ["])
def test_what_is_no_config_of_a_run_is_said(tmp_path, content):
    (tmp_path / "config.yaml").write_text(content + "\n")
    with pytest.raises(InputError):
        evaluation_of(tmp_path)


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_every_fact_stands_in_its_own_place(channels):
    net = build(NetConfig("mu/8", channels=channels), (16, 24), 3)
    report = Report(
        "", "", class_names=["a", "b", "c"], window=(100.0, 4000.0), training={"recipe": {"loss": "sigmoid"}}
    )
    told = interface_of(net, report, Augment(evaluation="center", zoom=1.5))
    given = told["input"]
    assert (given["size"], given["channels"], given["black"], given["white"]) == ([16, 24], channels, 100, 4000)
    assert (given["resize"], given["resize_to"], given["crop"]) == ("cover", [24, 36], "center")
    assert told["output"]["probabilities"] == "sigmoid" and told["class_names"] == ["a", "b", "c"]
    words = in_words(told)
    assert "100 and 4000 become 0 and 1" in words and "covers 24 x 36, and take the middle 16 x 24 pixels" in words
    plain = interface_of(build(NetConfig("mu/8"), 16, 0), Report("", ""), Augment())
    assert (plain["input"]["black"], plain["input"]["white"], plain["output"]["probabilities"]) == (0, 255, None)
    assert (plain["input"]["resize"], plain["input"]["resize_to"], plain["input"]["crop"]) == ("whole", [16, 16], None)
    assert plain["output"]["holds"] == "features" and "Resize the whole image to 16 x 16" in in_words(plain)


@pytest.mark.parametrize(
    ("channels", "colours"),
    [(1, "grey"), (2, "bands, in the order of the training images"), (3, "RGB"), (4, "bands, in the order of the ")],
)
def test_what_never_changes_is_said_too(channels, colours):
    net = build(NetConfig("mu/8", channels=channels), 16, 2)
    told = interface_of(net, Report("", "", training={"recipe": {"loss": "softmax"}}), Augment())
    given = told["input"]
    assert given.pop("colours").startswith(colours)
    assert given == {
        "name": "images",
        "type": "float32",
        "axes": "b c y x",
        "size": [16, 16],
        "channels": channels,
        "range": [0, 1],
        "black": 0,
        "white": 255,
        "normalisation": "inside",
        "resize": "whole",
        "resize_to": [16, 16],
        "crop": None,
        "interpolation": "bilinear, antialiased",
    }
    assert told["output"] == {"name": "logits", "holds": "a logit for each class", "probabilities": "softmax"}
    assert told["class_names"] == [] and told["net"] == vars(net.config)
    words = in_words(told | {"input": given | {"colours": colours}})
    assert "8-bit values are divided by 255. Resize" in words and "`images`, float32 `b c y x` in [0, 1]" in words
    assert words.endswith("Do not normalise: mean and std are inside. It gives `logits`.")


@pytest.mark.parametrize(("black", "white"), [(1, 255), (0, 254), (0, 4095)])
def test_a_window_is_said_unless_it_is_that_of_8_bits(black, white):
    told = interface_of(build(NetConfig("mu/8"), 16, 2), Report("", "", window=(black, white)), Augment())
    assert f"; of more bits, {black} and {white} become 0 and 1, and values beyond are clipped." in in_words(told)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid", None])
def test_features_have_no_probabilities_whatever_the_loss_was(loss):
    report = Report("", "", training={"recipe": {"loss": loss}})
    for classes, expected in ((0, None), (2, loss)):
        assert (
            interface_of(build(NetConfig("mu/8"), 16, classes), report, Augment())["output"]["probabilities"]
            == expected
        )


@pytest.mark.parametrize(
    ("augment", "expected"),
    [
        ("{evaluation: center}", Augment(evaluation="center")),
        ("{zoom: 1.5}", Augment(zoom=1.5)),
        ("{flip: false, mixup_alpha: 0.2}", Augment()),
    ],
)
def test_what_a_config_leaves_out_is_the_default(tmp_path, augment, expected):
    (tmp_path / "config.yaml").write_text(f"data: {{init_args: {{augment: {augment}}}}}\n")
    assert evaluation_of(tmp_path) == expected
