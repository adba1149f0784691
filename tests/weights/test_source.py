"""Where weights come from: paths, downloads and the Hub, without a network."""

import hashlib
import io
import os
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.weights import source
from vit_lightning.weights.source import fetch

CONTENT = b"weights" * 100
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def web(monkeypatch, tmp_path):
    """A web of one file; returns the addresses that were asked for."""
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        if "broken" in url:
            raise OSError("no route")
        time.sleep(0.02)
        response = io.BytesIO(CONTENT)
        response.headers = {"Content-Length": str(len(CONTENT) + ("short" in url))}
        return response

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    return asked


def files(folder):
    return [path.name for path in folder.rglob("*") if path.is_file() and path.name != "lock"]


def test_local_path(tmp_path):
    (tmp_path / "w.npz").touch()
    assert fetch(tmp_path / "w.npz") == tmp_path / "w.npz"
    with pytest.raises(InputError, match=r"no weights at .*x\.npz"):
        fetch(tmp_path / "x.npz")


def test_download_happens_once(web):
    path = fetch("https://a.b/c/w.npz")
    assert path.name == "w.npz"
    assert path.read_bytes() == CONTENT
    assert fetch("https://a.b/c/w.npz") == path
    assert len(web) == 1
    assert fetch("https://a.b/other/w.npz") != path


def test_google_storage_has_an_https_address(web):
    fetch("gs://vit_models/augreg/w.npz")
    assert web == ["https://storage.googleapis.com/vit_models/augreg/w.npz"]


def test_processes_at_once_download_once(web):
    threads = [threading.Thread(target=fetch, args=("https://a.b/w.npz",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(web) == 1


@pytest.mark.parametrize(
    "address",
    [
        f"https://a.b/w.npz#sha256={SHA256}",
        f"https://a.b/w.npz#sha256={SHA256.upper()}",
        f"https://a.b/w-{SHA256[:8]}.npz",
        f"https://a.b/w-{SHA256}.pth",
    ],
)
def test_known_checksum_is_compared(address, web):
    assert fetch(address).read_bytes() == CONTENT
    assert fetch(address).read_bytes() == CONTENT and len(web) == 1


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (f"https://a.b/w.npz#sha256={'0' * 64}", "sha256"),
        ("https://a.b/w-00000000.npz", "sha256"),
        ("https://a.b/short.npz", "ended after 700 of 701 bytes"),
        ("https://a.b/broken.npz", "no route"),
    ],
)
def test_failed_download_leaves_nothing(address, message, web, tmp_path):
    with pytest.raises(InputError, match=message):
        fetch(address)
    assert files(tmp_path) == []


def test_checksum_of_a_file_that_is_there_already(web):
    fetch("https://a.b/w.npz")
    with pytest.raises(InputError, match="sha256"):
        fetch(f"https://a.b/w.npz#sha256={'0' * 64}")


@pytest.mark.parametrize("address", ["http://a.b/w.npz", "s3://a/w.npz"])
def test_other_schemes(address):
    with pytest.raises(InputError, match="cannot come from"):
        fetch(address)


# Distributed runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_process_goes_first(rank, web, monkeypatch):
    done = []
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
    monkeypatch.setattr(torch.distributed, "barrier", lambda: done.append(("barrier", len(web))))
    fetch("https://a.b/w.npz")
    assert done == [("barrier", 1 - rank)]
    with pytest.raises(InputError, match="no route"):
        fetch("https://a.b/broken.npz")
    assert len(done) == 2


# Hub -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """An offline Hub whose cache holds one repository."""
    constants = pytest.importorskip("huggingface_hub.constants")
    repo = tmp_path / "models--google--vit"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("abc")
    snapshot = repo / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "other.npz"):
        (snapshot / name).write_text("{}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot


def test_hub_works_offline_from_its_cache(hub):
    assert fetch("hf://google/vit").resolve() == hub
    assert fetch("hf://google/vit/other.npz").resolve() == hub / "other.npz"
    assert fetch("hf://google/vit@main/other.npz").resolve() == hub / "other.npz"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("hf://google/vit/none.npz", r"no file 'none\.npz'"),
        ("hf://google/unknown", "could not be fetched"),
        ("hf://google", "names no repository"),
    ],
)
def test_hub_errors(address, message, hub):
    with pytest.raises(InputError, match=message):
        fetch(address)


def test_hub_without_its_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"pip install \"vit-lightning\[hub\]\""):
        fetch("hf://google/vit")


def test_safetensors_are_preferred_to_pickles(monkeypatch, tmp_path):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    asked = []

    def snapshot(repo, revision, allow_patterns):
        asked.append(allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    fetch("hf://a/b")
    assert asked[1][-2:] == source.HUB_PICKLES
    Path(tmp_path / "model.safetensors").touch()
    fetch("hf://a/b")
    assert len(asked) == 3
    assert source.HUB_PICKLES[0] not in asked[2]


def test_one_file_of_a_repository_comes_with_its_config(monkeypatch, tmp_path):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    asked = []

    def snapshot(*repo, **words):
        asked.append((repo, words))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    (tmp_path / "w.npz").touch()
    assert fetch("hf://a/b@v1/w.npz") == tmp_path / "w.npz"
    patterns = ["w.npz", "config.json", "preprocessor_config.json"]
    assert asked == [(("a/b",), {"revision": "v1", "allow_patterns": patterns})]


def test_a_path_that_would_never_end_is_refused(tmp_path):
    os.mkfifo(tmp_path / "w.npz")
    with pytest.raises(InputError, match="is a FIFO, not a regular file"):
        fetch(tmp_path / "w.npz")


def test_a_web_that_says_no_length_is_believed(web, monkeypatch):
    def urlopen(url, timeout):
        response = io.BytesIO(CONTENT)
        response.headers = {}
        return response

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    assert fetch("https://a.b/w.npz").read_bytes() == CONTENT


@pytest.mark.parametrize("address", ["https://a.b/w.npz", "gs://a/w.npz"])
def test_a_download_is_at_hand_once_it_was_fetched_whatever_its_checksum(address, web):
    assert not source.is_at_hand(address) and not source.is_at_hand(f"{address}#sha256={SHA256}")
    fetch(address)
    assert source.is_at_hand(address) and source.is_at_hand(f"{address}#sha256={SHA256}")
    assert source.is_at_hand("/no/such/file")
