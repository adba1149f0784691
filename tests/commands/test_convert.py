"""The verb convert, as a function and as a command."""

import json
import re
import subprocess
import sys

import pytest
import torch

from vit_lightning.commands.convert import convert
from vit_lightning.commands.export import export
from vit_lightning.errors import InputError
from vit_lightning.weights import load_net


def test_round_trip_through_every_layout_is_bit_identical(random_checkpoint, tmp_path, capsys):
    source = str(random_checkpoint)
    for to in ("timm", "huggingface", "torchvision", "checkpoint"):
        # torchvision's files say neither heads nor the shape of the grid.
        convert(source, tmp_path / to, to, heads=2, image_size=(8, 12))
        source = str(tmp_path / to)
        assert f"{to}, every tensor bit-identical" in capsys.readouterr().out
    first, last = load_net(random_checkpoint)[0].state_dict(), load_net(source)[0].state_dict()
    assert all(torch.equal(first[name], last[name]) for name in first)


def test_what_a_layout_cannot_say_is_refused_and_leaves_nothing(random_checkpoint, tmp_path):
    with pytest.raises(InputError, match=r"npz cannot say all of this net \(net\.gelu=exact"):
        convert(str(random_checkpoint), tmp_path / "w.npz", "npz")
    assert {path.name for path in tmp_path.iterdir()} == {"net.ckpt"}


def test_a_layout_without_names_of_classes_says_so(random_checkpoint, tmp_path, capsys):
    for to, holds_none in (("torchvision", True), ("timm", False)):
        convert(str(random_checkpoint), tmp_path / to, to)
        assert ("holds no names of classes: who reads" in capsys.readouterr().out) == holds_none


@pytest.mark.parametrize(("verb", "to"), [(convert, "checkpoint"), (export, "safetensors")])
def test_of_a_run_folder_the_best_checkpoint_is_taken_and_named(random_checkpoint, tmp_path, capsys, verb, to):
    best = tmp_path / "runs/x/0/checkpoints/best.ckpt"
    best.parent.mkdir(parents=True)
    random_checkpoint.rename(best)
    verb(str(tmp_path / "runs/x/0"), tmp_path / "out", to)
    assert f"weights: {best} (" in capsys.readouterr().out
    first, last = (load_net(path)[0].state_dict() for path in (best, tmp_path / "out"))
    assert all(torch.equal(first[name], last[name]) for name in first)
    if verb is export:
        (best.parents[1] / "config.yaml").write_text("data: {init_args: {augment: {evaluation: center, zoom: 1.5}}}")
        sources = (("elsewhere", tmp_path / "out"), ("folder", best.parents[1]), ("file", best))
        for name, source in sources:
            export(str(source), tmp_path / name, "torch_export")
        seen = [re.findall(r".*[Rr]esize.*", (tmp_path / name / "README.md").read_text()) for name, _ in sources]
        assert seen[0] != seen[1] == seen[2]  # how the run brought images to size


def test_timm_s_folder_says_how_the_run_brought_images_to_size(random_checkpoint, tmp_path):
    best = tmp_path / "runs/x/0/checkpoints/best.ckpt"
    best.parent.mkdir(parents=True)
    (best.parents[1] / "config.yaml").write_text("data: {init_args: {augment: {evaluation: center, zoom: 2}}}")
    convert(str(random_checkpoint), tmp_path / "alone", "timm")
    random_checkpoint.rename(best)
    for source, name in ((best, "file"), (best.parents[1], "folder")):
        convert(str(source), tmp_path / name, "timm")
    cards = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("alone", "file", "folder")]
    said = [(card["pretrained_cfg"]["crop_mode"], card["pretrained_cfg"]["crop_pct"]) for card in cards]
    assert said == [("squash", 1.0), ("center", 0.5), ("center", 0.5)]


def test_nothing_is_overwritten(random_checkpoint, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="exists already"):
        convert(str(random_checkpoint), tmp_path / "there", "timm")


def test_positions_are_fitted_on_request(random_checkpoint, tmp_path, capsys):
    convert(str(random_checkpoint), tmp_path / "w", "huggingface", image_size=24)
    assert load_net(tmp_path / "w")[0].image_size == (24, 24)
    assert "2x3 -> 6x6" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["convert", "export"])
def test_help_is_the_docstring_and_loads_no_torch(verb):
    code = (
        "import sys; from jsonargparse import auto_cli;"
        f"from vit_lightning.commands.{verb} import {verb}\n"
        f"try: auto_cli({verb}, args=['--help'])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("False")
    assert "Of a file with averaged weights, take those that were trained" in " ".join(done.stdout.split())


def test_a_name_that_promises_another_layout_is_refused(random_checkpoint, tmp_path):
    for name, to, fix in (("w.npz", "checkpoint", "give --to npz, or "), ("w.safetensors", "timm", "")):
        with pytest.raises(InputError, match=f"--to {to} writes something else; {fix}name it otherwise"):
            convert(str(random_checkpoint), tmp_path / name, to)
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("verb", "to"), [(convert, "checkpoint"), (export, "safetensors")])
def test_mean_and_deviation_are_stated_for_a_file_that_says_none(random_checkpoint, tmp_path, verb, to):
    convert(str(random_checkpoint), tmp_path / "timm", "timm", image_size=8)
    bare = (tmp_path / "timm" / "model.safetensors").rename(tmp_path / "bare.safetensors")
    said = {"gelu": "exact", "norm_eps": 1e-6, "heads": 2, "mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}
    verb(str(bare), tmp_path / "w", to, **said)
    report = load_net(tmp_path / "w")[1]
    assert (report.mean, report.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
