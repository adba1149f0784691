"""Policies of load_net and load_into: heads, grids, patches, channels, and disagreements."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from scipy.ndimage import zoom

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, load, load_into, load_net, open_weights
from vit_lightning.weights.layouts.tensor_mapping import Weights
from vit_lightning.weights.resize import with_channels, with_patch
from vit_lightning.weights.save import save

TINY = {"width": 16, "depth": 2, "heads": 2, "mlp": 24, "patch": 4}


def tiny(image_size=(16, 16), classes=3, **fields):
    return build(NetConfig("Ti/16", **TINY | fields), image_size, classes)


@pytest.fixture
def saved(tmp_path, randomise):
    """Writes a checkpoint of a tiny random net; returns its path and the net."""

    def write(*args, **fields):
        net = randomise(tiny(*args, **fields))
        save(net, Report("", "", class_names=["a", "b", "c"]), tmp_path / "w.ckpt", "checkpoint")
        return tmp_path / "w.ckpt", net

    return write


def test_keep_takes_everything(saved):
    source, weights = saved()
    net = tiny()
    report = load_into(net, source)
    assert set(report.loaded) == set(net.state_dict())
    assert all(torch.equal(tensor, weights.state_dict()[name]) for name, tensor in net.state_dict().items())
    assert report.class_names == ["a", "b", "c"]


def test_weights_that_are_open_say_their_config_and_fill_nets_without_being_opened_again(saved):
    source, weights = saved()
    opened = open_weights(source)
    source.rename(source.with_name("away.ckpt"))
    assert opened.config() == weights.config
    filled, (built, _) = tiny(), opened.build()
    opened.fill(filled)
    for net in (filled, built):
        assert all(torch.equal(tensor, weights.state_dict()[name]) for name, tensor in net.state_dict().items())


def test_other_classes_name_both_numbers_and_the_way_out(saved):
    source, _ = saved()
    with pytest.raises(InputError, match=r"3 classes.*10.*weights_head reset"):
        load_into(tiny(classes=10), source)


@pytest.mark.parametrize(
    ("theirs", "ours", "out"),
    [
        ({}, {"pool": "gap"}, r"set it to token, or leave out --model\.net\.pool\.$"),
        ({"pool": "gap"}, {}, r"set it to gap, or leave out --model\.net\.variant to take the net from the weights"),
    ],
)
def test_a_field_that_differs_is_named_by_the_flag_that_set_it(saved, theirs, ours, out):
    """The variant's own fields leave with the variant, a field that was set beside it with its flag."""
    source, _ = saved(**theirs)
    with pytest.raises(InputError, match=out):
        load_into(tiny(**ours), source)


def test_reset_leaves_the_net_its_own_head(saved):
    source, weights = saved()
    net = tiny(classes=10)
    report = load_into(net, source, head="reset")
    assert not net.head.weight.count_nonzero()
    assert set(report.missing) == set(report.dropped) == {"head.weight", "head.bias"}
    assert report.class_names == []
    assert torch.equal(net.norm.weight, weights.norm.weight)


def test_reset_of_equal_classes_is_a_reset(saved):
    source, _ = saved()
    net = tiny()
    load_into(net, source, head="reset")
    assert not net.head.weight.count_nonzero()


def test_backbone_needs_a_reset(saved):
    source, weights = saved(classes=0)
    with pytest.raises(InputError, match=r"have no head, the net's is for 3 classes: .*weights_head reset"):
        load_into(tiny(), source)
    report = load_into(net := tiny(), source, head="reset")
    assert set(report.missing) == {"head.weight", "head.bias"}
    assert torch.equal(net.position.table, weights.position.table)


def test_hidden_layer_stays_where_the_net_has_it(saved):
    source, weights = saved(representation=6)
    net = tiny(classes=9, representation=6)
    report = load_into(net, source, head="reset")
    assert torch.equal(net.representation.weight, weights.representation.weight)
    assert set(report.dropped) == {"head.weight", "head.bias"}
    with pytest.raises(InputError, match=r"representation=6.*0"):
        load_into(tiny(), source)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gelu": "exact"}, "gelu=tanh.*exact"),
        ({"norm_eps": 1e-12}, "norm_eps"),
        ({"heads": 4}, "heads=2.*4"),
        ({"pool": "gap", "class_token": True}, "pool=token.*gap"),
        ({"depth": 3}, "net.depth=2, but the net has 3"),
        ({"depth": 1}, "net.depth=2, but the net has 1"),
        ({"registers": 2}, "lack registers"),
        ({"layer_scale": 0.1}, "lack blocks.0.scale1"),
        ({"position": "sincos_2d"}, "position=learned.*sincos_2d"),
        ({"width": 32}, "net.width=16, but the net has 32"),
        ({"embed_norm": True}, "lack embed_norm"),
        ({"patch": 8}, "patch=4.*8.*adapt"),
        ({"channels": 1}, "channels=3.*1.*adapt"),
    ],
)
def test_other_nets_are_refused(fields, message, saved):
    source, _ = saved()
    with pytest.raises(InputError, match=message):
        load_into(tiny(**fields), source)


@pytest.mark.parametrize(
    "fields", [{"position": "none"}, {"position": "sincos_2d", "position_temperature": 30}], ids=str
)
def test_other_positions_are_refused_where_no_tensor_shows_them(fields, saved):
    source, _ = saved(position="sincos_2d")
    load_into(tiny(position="sincos_2d"), source)
    with pytest.raises(InputError, match=r"set it to (sincos_2d|10000.0)"):
        load_into(tiny(**fields), source)


@pytest.mark.parametrize(
    ("theirs", "message"), [(0, "net lacks registers"), (3, r"registers is \(1, 2, 16\).*\(1, 3, 16\) in the net")]
)
def test_tensors_that_the_net_lacks_or_has_in_another_shape(theirs, message, saved):
    source, _ = saved(registers=2)
    with pytest.raises(InputError, match=message):
        load_into(tiny(registers=theirs), source)


def test_heads_that_the_file_contradicts(saved):
    source, _ = saved()
    with pytest.raises(InputError, match="2 heads, but heads is 4"):
        load_net(source, heads=4)


# Positions -----------------------------------------------------------------------------------------------------------


def test_positions_follow_the_paper(saved):
    source, weights = saved((56, 56))
    net, report = load_net(source, image_size=96)
    grid = weights.position.table[0, 1:].reshape(14, 14, 16).detach().numpy()
    expected = zoom(grid, (24 / 14, 24 / 14, 1), order=1).reshape(-1, 16)
    assert abs(net.position.table[0, 1:].detach().numpy() - expected).max() < 1e-5
    assert torch.equal(net.position.table[0, 0], weights.position.table[0, 0])
    assert report.resampled == {"position.table": "14x14 -> 24x24 patches, bilinear"}
    assert "14x14 -> 24x24" in str(report)


def test_bicubic_is_another_choice(saved):
    source, _ = saved()
    paper, _ = load_net(source, image_size=32)
    net, report = load_net(source, image_size=32, resampling="bicubic")
    assert not torch.allclose(net.position.table, paper.position.table)
    assert report.resampled["position.table"].endswith("bicubic")


@pytest.mark.parametrize(("old", "new"), [((8, 32), (16, 16)), ((8, 16), (16, 8))])
def test_grids_are_compared_not_counts(old, new, saved):
    source, weights = saved(old)
    net, _ = load_net(source, image_size=new)
    assert net.position.table.shape == weights.position.table.shape
    assert not torch.allclose(net.position.table, weights.position.table)
    report = load_into(again := tiny(new), source)
    assert torch.equal(again.position.table, net.position.table)
    assert "position.table" in report.resampled


def test_equal_grids_are_untouched(saved):
    source, weights = saved((8, 32))
    net, report = load_net(source)
    assert torch.equal(net.position.table, weights.position.table)
    assert not report.resampled


@pytest.mark.parametrize(
    "fields", [{"position": "learned_2d"}, {"position_at": "every_layer"}, {"position": "sincos_2d"}]
)
def test_other_positions(fields, saved):
    source, weights = saved((8, 16), **fields)
    net, report = load_net(source, image_size=(16, 16))
    assert net(torch.zeros(1, 3, 16, 16)).shape == (1, 3)
    assert bool(report.resampled) == (fields.get("position") != "sincos_2d")
    if "position" in fields and report.resampled:
        assert torch.equal(net.position.columns, weights.position.columns)
        assert torch.allclose(net.position.rows[[0, -1]], weights.position.rows)


def test_relative_positions_belong_to_their_grid(saved):
    source, _ = saved((8, 16), position="relative")
    with pytest.raises(InputError, match=r"2x4.*4x2.*image_size"):
        load_net(source, image_size=(16, 8))


def test_size_that_the_patch_does_not_divide(saved):
    source, _ = saved()
    with pytest.raises(InputError, match="Patches of 4 do not divide the image size 33"):
        load_net(source, image_size=33)


# First layer ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("patch", "new"), [(16, 8), (8, 16), (16, 14)])
def test_patches_resize_like_flexivit(patch, new):
    """timm's own pseudo-inverse is the reference; a patch that was enlarged linearly then gives the same token."""
    resample = pytest.importorskip("timm.layers").resample_patch_embed
    kernel = torch.randn(5, 3, patch, patch)
    expected = resample(kernel, (new, new), interpolation="bilinear", antialias=False)
    assert (with_patch(kernel, new) - expected).abs().max() < 1e-4 * expected.abs().max()
    if new > patch:
        image = torch.randn(1, 3, patch, patch)
        larger = torch.nn.functional.interpolate(image, size=(new, new), mode="bilinear")
        assert torch.allclose(
            (with_patch(kernel, new) * larger).sum((1, 2, 3)), (kernel * image).sum((1, 2, 3)), atol=1e-3
        )


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_channels_adapt_like_timm(channels):
    adapt = pytest.importorskip("timm.models").adapt_input_conv
    kernel = torch.randn(5, 3, 4, 4)
    assert torch.allclose(with_channels(kernel, channels), adapt(channels, kernel), atol=1e-6)


def test_first_layer_on_request(saved):
    source, weights = saved()
    net = tiny((32, 32), patch=8, channels=1)
    report = load_into(net, source, adapt=True)
    assert report.resampled == {"patches.proj.weight": "patch 4 -> 8, channels 3 -> 1"}
    grey = torch.full((1, 1, 32, 32), 0.5)
    same = torch.full((1, 3, 16, 16), 0.5)
    with torch.no_grad():
        assert torch.allclose(net.embed(grey), weights.embed(same), atol=1e-4)


@pytest.mark.parametrize("std", [(0.5, 0.5, 0.5), (0.229, 0.224, 0.225)])
def test_a_net_of_one_channel_answers_to_grey_as_that_of_colours(tmp_path, randomise, difference, std):
    """Also where mean and std differ between the colours: the first layer's bias takes up what a kernel cannot."""
    mean = (0.5, 0.5, 0.5) if std[0] == std[1] else (0.485, 0.456, 0.406)
    weights = randomise(tiny()).double().eval()
    save(weights.float(), Report("", "", mean=mean, std=std), tmp_path / "w.ckpt", "checkpoint")
    net = tiny(channels=1)
    report = load_into(net, tmp_path / "w.ckpt", adapt=True)
    assert (report.mean, report.std) == (pytest.approx((sum(mean) / 3,)), pytest.approx((sum(std) / 3,)))
    grey = torch.rand(4, 1, 16, 16)
    colours = (grey.expand(-1, 3, -1, -1) - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    with torch.no_grad():
        expected = weights.double()(colours.double())
        found = net.double().eval()(((grey - report.mean[0]) / report.std[0]).double())
    assert difference(found, expected) < 1e-5
    assert f"of 1 channel: mean ({sum(mean) / 3:.4g})" in str(report)


def test_mean_and_std_follow_the_channels(tmp_path, randomise):
    report = Report("", "", mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    report.adapt_normalisation(4)
    assert report.mean == (0.1, 0.2, 0.3, 0.1) and report.std == (0.5, 0.6, 0.7, 0.5)
    report.adapt_normalisation(1)
    assert report.mean == pytest.approx((0.175,)) and report.std == pytest.approx((0.575,))
    unknown = Report("", "")
    unknown.adapt_normalisation(1)
    assert unknown.mean is None and not unknown.notes


def test_hybrid_stem_on_request(tmp_path, randomise):
    fields = {"width": 16, "depth": 1, "heads": 2, "mlp": 24, "patch": 1, "stages": (1,)}
    weights = randomise(build(NetConfig("Ti/16", **fields), 16, 3))
    save(weights, Report("", ""), tmp_path / "w.npz", "npz")
    net = build(NetConfig("Ti/16", **fields, channels=1), 16, 3)
    report = load_into(net, tmp_path / "w.npz", adapt=True)
    assert report.resampled == {"stem.conv_root.weight": "channels 3 -> 1"}
    assert "answers to grey images are near, not equal" in str(report)


# Storage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["safetensors", "checkpoint"])
def test_training_never_reaches_the_file(to, saved, tmp_path):
    """Tensors are views of the mapped file: a step must not write through."""
    _, weights = saved()
    save(weights, Report("", ""), tmp_path / "ours", to)
    file = tmp_path / "ours" / "model.safetensors" if to == "safetensors" else tmp_path / "ours"
    net, _ = load_net(tmp_path / "ours")
    assert all(parameter.requires_grad and parameter.is_contiguous() for parameter in net.parameters())
    before = file.read_bytes()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1)
    assert file.read_bytes() == before
    assert torch.equal(load_net(tmp_path / "ours")[0].head.bias, weights.head.bias)


@pytest.mark.parametrize("kind", [torch.int8, torch.int64])
@pytest.mark.parametrize("to", ["safetensors", "timm"])
def test_whole_numbers_are_no_weights(kind, to, saved, tmp_path):
    """Quantised or damaged files, in any layout: rounded numbers would be taken for weights."""
    _, weights = saved()
    save(weights, Report("", ""), tmp_path / "theirs", to)
    file = next((tmp_path / "theirs").glob("*.safetensors"))
    with safe_open(file, "pt") as opened:
        facts = opened.metadata()
    tensors = load_file(file)
    save_file(tensors | {"head.weight": tensors["head.weight"].to(kind)}, file, facts)
    said = rf"head\.weight of .* is {str(kind).removeprefix('torch.')}, but its net needs floating-point numbers"
    with pytest.raises(InputError, match=said):
        load_net(tmp_path / "theirs")
    with pytest.raises(InputError, match=said):
        load_into(tiny(), tmp_path / "theirs")


def test_a_head_belongs_to_where_the_last_norm_stands(saved):
    source, _ = saved(pool="gap", norm_after_pool=True)
    net = tiny(pool="gap", norm_after_pool=False)
    with pytest.raises(InputError, match=r"norm_after_pool=True.*False"):
        load_into(net, source)
    assert load_into(net, source, "reset").missing


def test_fields_that_no_tensor_shows_must_agree_with_a_new_head_too(saved):
    source, _ = saved()
    for fields in ({"gelu": "exact"}, {"norm_eps": 1e-12}, {"heads": 4}):
        with pytest.raises(InputError, match=next(iter(fields))):
            load_into(tiny(**fields), source, "reset")


ALWAYS = {
    "depth": 3,
    "width": 24,
    "mlp": 25,
    "heads": 4,
    "gelu": "exact",
    "swiglu": True,
    "norm_eps": 1e-5,
    "resnet_code": "timm",
    "attention": "axial",
    "position": "none",
    "position_at": "every_layer",
    "position_temperature": 30.0,
}
FOR_A_HEAD = {"pool": "map", "norm_after_pool": True, "representation": 7}


@pytest.mark.parametrize("head", ["keep", "reset"])
@pytest.mark.parametrize("field", [*ALWAYS, *FOR_A_HEAD])
def test_every_field_that_changes_what_tensors_mean_must_agree(field, head, saved):
    source, net = saved()
    other = (ALWAYS | FOR_A_HEAD)[field]
    setattr(net.config, field, other)  # whatever else goes with it
    if head == "reset" and field in FOR_A_HEAD:
        assert load_into(net, source, head).loaded
        return
    with pytest.raises(InputError, match=rf"weights are for net\.{field}=\S+, but the net has {other}: set it to "):
        load_into(net, source, head)


def test_a_field_that_the_file_says_is_not_stated_otherwise(saved):
    source, net = saved()
    for name, other in (("gelu", "exact"), ("norm_eps", 1e-5), ("pool", "gap"), ("norm_after_pool", True)):
        said = getattr(net.config, name)
        assert load_net(source, stated=NetConfig(**{name: said}))[1].loaded
        with pytest.raises(InputError, match=f"has {name}={said}, but {name} is {other}: leave {name} out"):
            load_net(source, stated=NetConfig(**{name: other}))


def test_a_report_says_all_that_the_weights_say_and_shares_none_of_it():
    says = {
        "dropped": {"x": "beside the net"},
        "notes": ["assumed"],
        "mean": (0.1, 0.2, 0.3),
        "std": (0.4, 0.5, 0.6),
        "assumes_statistics": True,
        "window": (10.0, 4000.0),
        "class_names": ["a", "b"],
        "training": {"steps": 7},
        "of_data": {"seen_labels": {"class_names": {0: ["a"]}}},
    }
    weights = Weights("ours", tiny().config, (16, 16), 2, [], {}, **says)
    report = load._report("w.ckpt", weights)
    begun = {"source": "w.ckpt", "layout": "ours", "loaded": [], "missing": {}, "resampled": {}}
    assert vars(report) == {**begun, "evaluation": Augment(), **says}  # which the run says, not the weights
    for name in ("dropped", "notes", "class_names", "training", "of_data"):
        assert getattr(report, name) is not says[name]


@pytest.mark.parametrize("stated", [{}, {"mean": (0.1, 0.2, 0.3)}, {"std": (0.4, 0.5, 0.6)}])
@pytest.mark.parametrize("is_dinov2", [False, True])
def test_imagenet_s_statistics_are_assumed_of_dinov2_where_none_is_stated(stated, is_dinov2):
    weights = Weights("ours", tiny().config, (16, 16), 2, [], {}, is_dinov2=is_dinov2, **stated)
    weights.assume_statistics()
    assumed = is_dinov2 and not stated
    assert weights.assumes_statistics == assumed and len(weights.notes) == assumed
    known = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)} if assumed else stated
    assert (weights.mean, weights.std) == (known.get("mean"), known.get("std"))
