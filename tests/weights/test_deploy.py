"""Programs normalise by themselves, and one that computes something else than its net is refused."""

from types import SimpleNamespace

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import deploy
from vit_lightning.weights.deploy import TOLERANCE, Normalised, to_onnx, to_torch_export
from vit_lightning.weights.report import Report

MEAN, STD = (0.1, 0.2, 0.4), (0.5, 0.25, 0.125)


@pytest.fixture
def net(randomise):
    return randomise(build(NetConfig("mu/8"), (8, 16), 3))


def normalised(images: torch.Tensor, mean=MEAN, std=STD) -> torch.Tensor:
    """Channel by channel."""
    return torch.stack([(images[:, c] - mean[c]) / std[c] for c in range(len(mean))], dim=1)


@pytest.mark.parametrize("stated", [True, False])
def test_a_program_takes_images_from_0_to_1(net, stated):
    report = Report("", "", mean=MEAN, std=STD) if stated else Report("", "")
    images = torch.rand(2, 3, 8, 16, generator=torch.Generator().manual_seed(0))
    expected = net(normalised(images) if stated else normalised(images, (0.5,) * 3, (0.5,) * 3))
    torch.testing.assert_close(Normalised(net, report)(images), expected)


def test_a_right_program_is_within_the_tolerance_at_every_batch(net):
    batches: list[int] = []

    def program(images: torch.Tensor) -> torch.Tensor:
        batches.append(len(images))
        return net(normalised(images))

    assert 0 <= deploy._checked(net, Report("", "", mean=MEAN, std=STD), program) <= TOLERANCE
    assert batches == [1, 3]


@pytest.mark.parametrize("wrong", ["twice", "late", "nan", "none"])
def test_a_wrong_program_is_refused(net, wrong):
    def program(images: torch.Tensor) -> torch.Tensor:
        said = net(images if wrong == "none" else normalised(images))
        off = {"twice": 9 * TOLERANCE, "nan": float("nan")}.get(wrong, 0.1 if len(images) == 3 else 0.0)
        return said + (off * said.abs().max() if wrong != "none" else 0)

    with pytest.raises(InputError, match=r"The exported program differs from the net by .*, more than 2e-05"):
        deploy._checked(net, Report("", "", mean=MEAN, std=STD), program)


def test_a_wrong_program_is_noticed_by_its_writer(net, tmp_path, monkeypatch):
    """The program that was read back is what is compared."""
    read = SimpleNamespace(module=lambda: net)  # which takes normalised images
    monkeypatch.setattr(torch.export, "export", lambda *words, **kwargs: None)
    monkeypatch.setattr(torch.export, "save", lambda program, file, extra_files: file.write(b"program"))
    monkeypatch.setattr(torch.export, "load", lambda path: read if path.read_bytes() == b"program" else None)
    with pytest.raises(InputError, match="The exported program differs from the net by"):
        to_torch_export(net, Report("", "", mean=MEAN, std=STD), tmp_path / "out")


@pytest.mark.parametrize("name", ["onnxruntime", "onnxscript"])
def test_the_package_that_lacks_is_named(net, tmp_path, monkeypatch, name):
    monkeypatch.setitem(__import__("sys").modules, name, None)
    pytest.importorskip("onnxscript" if name == "onnxruntime" else "onnxruntime")
    with pytest.raises(InputError, match=rf"Export to ONNX needs {name}: pip install \"vit-lightning\[onnx\]\""):
        to_onnx(net, Report("", ""), tmp_path / "out")
    assert not (tmp_path / "out").exists()
