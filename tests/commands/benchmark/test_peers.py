"""Nets of other libraries by name: built without a download, counted, trained in the model's recipe, or refused."""

import json
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer
from torch.nn.functional import cross_entropy

from vit_lightning.classifier import Classifier
from vit_lightning.commands.benchmark.contender import Contender, rebuild
from vit_lightning.commands.benchmark.measurements import Measurements
from vit_lightning.commands.benchmark.peers import PeerFacts, PeerNet, is_peer, peer_class
from vit_lightning.compute.cost import macs
from vit_lightning.errors import InputError
from vit_lightning.masked_patch import MaskedPatch
from vit_lightning.models import NetConfig, resolve

FAST = ("--rounds", 2, "--seconds", 0.01)
TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data.num_classes", 3)
BENCH = ("benchmark", "--data", "Synthetic", "--data.batch_size", 4, "--data.train_size", 16, *TINY, *FAST)
LAYERS = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2}
VIT = {"model_type": "vit", "patch_size": 16, "image_size": 224, "intermediate_size": 32, **LAYERS}
DINOV2 = {"model_type": "dinov2", "patch_size": 16, "image_size": 518, "mlp_ratio": 2, **LAYERS}
SMALLEST = "torchvision/shufflenet_v2_x0_5"


def folder(path: Path, **config: object) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return f"transformers/{path}"


def facts(name: str, size: tuple[int, int] = (32, 32), classes: int = 3, **net: float) -> PeerFacts:
    return PeerFacts(name, resolve(NetConfig(**net)), size, classes)


def built(*words: object, **net: float) -> PeerNet:
    with torch.device("meta"):
        return PeerNet(facts(*words, **net))


@pytest.mark.parametrize(
    ("name", "ours", "side"),
    [
        ("torchvision/vit_b_32", NetConfig("B/32"), 64),
        ("transformers/vit-tiny-patch16-224", NetConfig("Ti/16"), 32),
        ("transformers/vit-base-patch32-224", NetConfig("B/32"), 64),
        ("transformers/dinov2-small", NetConfig("S/14", pool="token_and_gap"), 28),
    ],
)
def test_a_usual_name_is_the_net_of_its_size(name, ours, side):
    """Ours computes as many products, counted by formula."""
    pytest.importorskip(name.partition("/")[0])
    net = built(name, (side, side), 7)
    assert net.macs == macs(ours, side, 7)
    assert net(torch.empty(2, 3, side, side, device="meta")).shape == (2, 7)


def test_dinov2_s_largest_net_is_gated():
    pytest.importorskip("transformers")
    from vit_lightning.commands.benchmark.peers import _transformers_config

    config = _transformers_config(facts("transformers/dinov2-giant"))
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (1536, 40, 24)
    assert config.use_swiglu_ffn and config.mlp_ratio == 4 and config.patch_size == 14


@pytest.mark.parametrize(("config", "size"), [(VIT, (32, 48)), (DINOV2, (48, 48))], ids=["vit", "dinov2"])
def test_a_folder_s_net_has_its_library_s_best_attention_and_our_images(tmp_path, config, size):
    """Its position table is that of our images: of another size it would be resampled in every step."""
    pytest.importorskip("transformers")
    name = folder(tmp_path / "net", **config, dtype="float16", num_labels=1000)
    net = PeerNet(facts(name, size, 5, channels=2, dropout=0.25))
    own, (y, x) = net.body.config, size
    assert own._attn_implementation == "sdpa" and own.image_size == (y if y == x else [y, x])
    assert (own.num_labels, own.num_channels, own.hidden_dropout_prob) == (5, 2, 0.25)
    assert {tensor.dtype for tensor in net.parameters()} == {torch.float32}
    assert next(tensor for name, tensor in net.named_parameters() if "position" in name).shape[1] == 1 + (y // 16) * (
        x // 16
    )
    assert net(torch.zeros(2, 2, *size)).shape == (2, 5)


def test_stochastic_depth_goes_where_the_net_has_it(tmp_path):
    pytest.importorskip("transformers")
    net = PeerNet(facts(folder(tmp_path / "dinov2", **DINOV2), stochastic_depth=0.5))
    assert net.body.config.drop_path_rate == 0.5
    net = built("torchvision/convnext_tiny", stochastic_depth=0.5)
    assert max(getattr(module, "p", 0) for module in net.modules() if "Stochastic" in type(module).__name__) == 0.5


def test_code_of_a_folder_does_not_run(tmp_path):
    pytest.importorskip("transformers")
    name = folder(tmp_path / "net", model_type="own", auto_map={"AutoConfig": "own.Own"})
    (tmp_path / "net/own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match=r"transformers cannot read .*config\.json"):
        built(name)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["torchvision/inception_v3", "torchvision/maxvit_t", "torchvision/swin_v2_t"])
def test_nets_of_their_own_forms_give_logits(name):
    """One answers auxiliary logits too, one is told the size of its images as a pair."""
    side = 299 if "inception" in name else 224
    net = built(name, (side, side), 5).train(name.endswith("v3"))
    assert net(torch.empty(2, 3, side, side, device="meta")).shape == (2, 5)


class Doubled(Classifier):
    """A model of a user, with a loss of its own."""

    def loss(self, logits, labels, smoothing=0.0, reduction="mean"):
        return 2 * cross_entropy(logits, labels)


def test_a_peer_has_the_model_s_recipe_and_its_own_name(monkeypatch):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    trainer = Trainer(accelerator="cpu", max_steps=1, **quiet)
    optim = {"name": "adamw", "lr": 0.5, "weight_decay": 0.125}
    model = Doubled(net=NetConfig("mu/8"), optim=optim, num_classes=3, image_size=32, fp8=True)
    peer = Measurements(trainer, model, None, 4, 2, 1.0).peer(SMALLEST, True)
    for made in (peer, rebuild(peer)):
        assert isinstance(made, Doubled) and made.config.variant == SMALLEST
        assert (made.hparams.compile, made.hparams.cuda_graph, made.hparams.fp8) == (True, False, False)
        assert (made.optim.lr, made.optim.name, made.optim.weight_decay) == (1e-5, "adamw", 0.125)
    contender = Contender(trainer, rebuild(peer, compile=False))
    assert contender.name == SMALLEST and contender._cudnn_attention
    assert contender.flops("train") == 3 * contender.flops("inference") == 6 * contender.model.net.macs
    (optimizer,) = contender.strategy.optimizers
    assert isinstance(optimizer, torch.optim.AdamW) and optimizer.defaults["fused"]
    before = contender.model.net.body.conv1[0].weight.clone()
    contender.task("train", 4)(1)
    assert not torch.equal(before, contender.model.net.body.conv1[0].weight)


def test_several_peers_take_turns(app):
    pytest.importorskip("transformers")
    tiny = folder(Path("net"), **VIT)
    done = app(*BENCH, "--measure", "train,inference", "--compare", f"[{tiny},{SMALLEST}]", "--json", "b.json")
    assert done.code == 0, done.err
    content = json.loads(Path("b.json").read_text())
    assert [(pair["measure"], pair["of"], pair["to"]) for pair in content["ratios"]] == [
        (measure, "mu/8", peer) for measure in ("train", "inference") for peer in (tiny, SMALLEST)
    ]
    config = {"depth": 2, "width": 16, "mlp": 32, "heads": 2}
    forward = 2 * macs(NetConfig("mu/16", **config), 32, 3)
    flops = {row["measure"]: row["flops"] for row in content["rows"] if row["net"] == tiny}
    assert flops == {"train": 3 * forward, "inference": forward}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("torchvison/vit_b_16",), "there is no library torchvison; did you mean torchvision?"),
        (("keras/vit",), "there is no library keras; choose one of timm, torchvision, transformers"),
        (("torchvision/vit_b16",), "torchvision has no net 'vit_b16'; did you mean torchvision/vit_b_16?"),
        (("torchvision/zzz",), "torchvision has no net 'zzz'; choose for example torchvision/vit_b_16"),
        (("transformers/dinov2-smal",), "did you mean transformers/dinov2-small?"),
        (("transformers/google/vit-base-patch16-224",), "did you mean transformers/vit-base-patch16-224?"),
        (("transformers/zzz",), "or give a folder with a config.json"),
        (("transformers/empty",), "there is no config.json in empty"),
        (("transformers/broken",), "transformers cannot read broken/config.json ("),
        (("transformers/text",), "transformers has no image classifier of the kind of transformers/text"),
        (
            ("torchvision/vit_b_16", "--data.image_size", 40),
            "torchvision/vit_b_16 cannot take images of 40x40 pixels (",
        ),
        (("torchvision/vgg11", "--data.image_size", 16), "torchvision/vgg11 cannot take images of 16x16 pixels ("),
        (("transformers/vit-tiny-patch16-224", "--data.image_size", 8), "cannot take images of 8x8 pixels ("),
        (("transformers/vit-tiny-patch16-224", "--model.net.stochastic_depth", 0.1), "has no drop_path_rate that can"),
        (
            (SMALLEST, "--model.net.dropout", 0.1),
            f"{SMALLEST} has no dropout that can be set: drop --model.net.dropout",
        ),
        ((SMALLEST, "--model.freeze_trunk", "true"), "is trained whole, as one layer: drop --model.freeze_trunk"),
        (
            (SMALLEST, "--model.optim.layer_decay", 0.5),
            "is trained whole, as one layer: drop --model.optim.layer_decay",
        ),
        ((SMALLEST, "--model.optim.name", "muon"), "is trained whole, as one layer: drop --model.optim.name muon"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(map(str, value)),
)
def test_what_no_peer_can_be_is_one_sentence_before_anything_is_measured(app, words, said):
    if words[0].startswith("transformers/"):
        pytest.importorskip("transformers")
    Path("empty").mkdir()
    folder(Path("text"), model_type="bert")
    folder(Path("broken"), **VIT | {"hidden_size": "wide"})
    done = app(*BENCH, "--measure", "inference", "--compare", *words)
    assert done.code == 1 and done.out == "" and "Traceback" not in done.err
    assert said in done.err.splitlines()[-1]


def test_a_net_that_takes_colours_or_squares_alone():
    with pytest.raises(InputError, match=r"torchvision's nets take 3 channels, not 1"):
        built(SMALLEST, channels=1)
    with pytest.raises(InputError, match=r"torchvision/vit_b_32 takes square images alone, not 64x32"):
        built("torchvision/vit_b_32", (64, 32))


def test_a_peer_without_transformers_names_the_package(app, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    done = app(*BENCH, "--measure", "train", "--compare", "transformers/dinov2-small")
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith("transformers/dinov2-small needs transformers: pip install transformers")


def test_a_model_without_logits_has_no_such_peer():
    model = MaskedPatch(net=NetConfig("mu/8"), image_size=16, num_classes=0)
    with pytest.raises(InputError, match=r"gives logits, which MaskedPatch has no use for"):
        peer_class(model, SMALLEST)


@pytest.mark.parametrize(
    "name", ["B/16", "mu/8", "So400m/14", "R50+B/16", "timm/vit_tiny_patch16_224", "g-opt/14", "x"]
)
def test_other_names_are_variants(name):
    assert not is_peer(name) and is_peer(f"torchvision/{name}")
