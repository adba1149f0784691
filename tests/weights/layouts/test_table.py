"""The table of layouts: who reads a file, who writes a net, and what the first match hides."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report, layouts
from vit_lightning.weights.layouts import LAYOUTS, checkpoint, timm, timm_net, timm_resnet


def test_our_own_files_are_looked_for_first_and_the_order_is_that_of_the_help():
    assert list(LAYOUTS) == ["checkpoint", "safetensors", "npz", "timm", "huggingface", "torchvision"]
    assert list(layouts.TIMMS) == [timm, timm_resnet, timm_net]  # the last takes any net that a config.json names


def test_every_layout_has_its_own_reader_and_writer():
    names = {name: (layout.read.__module__, layout.write.__module__) for name, layout in LAYOUTS.items()}
    package = "vit_lightning.weights.layouts"
    assert names.pop("timm") == (package, package)
    modules = {"safetensors": "checkpoint", "npz": "google"}
    assert names == {name: (f"{package}.{modules.get(name, name)}",) * 2 for name in names}
    assert LAYOUTS["checkpoint"].write is checkpoint.write
    assert LAYOUTS["safetensors"].write is checkpoint.write_safetensors


@pytest.mark.parametrize("knowing", [(0,), (1,), (2,), (0, 2), (1, 2), ()])
def test_a_file_of_timm_s_is_read_by_the_first_that_knows_it(monkeypatch, knowing):
    readers = [
        SimpleNamespace(recognises=lambda archive, n=n: n in knowing, read=lambda *words, n=n: (n, *words))
        for n in range(3)
    ]
    monkeypatch.setattr(layouts, "TIMMS", readers)
    assert LAYOUTS["timm"].recognises("file") == bool(knowing)
    if knowing:
        assert LAYOUTS["timm"].read("file", 3, (8, 16)) == (min(knowing), "file", 3, (8, 16))


@pytest.mark.parametrize(
    ("config", "writer"),
    [
        (NetConfig("mu/8"), timm),
        (NetConfig("R50x1", width=32, stages=(1,)), timm_resnet),
        (NetConfig("timm/resnet10t"), timm_net),
    ],
)
def test_a_net_is_written_by_the_writer_of_its_kind(monkeypatch, config, writer):
    if config.variant.startswith("timm/"):
        pytest.importorskip("timm")
    net, report, called = build(config, 32, 2), Report("", ""), []
    for each in (timm, timm_resnet, timm_net):
        monkeypatch.setattr(each, "write", lambda *words, each=each: called.append((each, words)))
    LAYOUTS["timm"].write(net, report, Path("x"))
    assert called == [(writer, (net, report, Path("x")))]
