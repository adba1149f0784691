"""Where weights are kept and asked for, told without a network."""

import hashlib
from pathlib import Path

import pytest
import torch

from vit_lightning.errors import InputError
from vit_lightning.weights import source
from vit_lightning.weights.source import fetch, is_at_hand

URL = "https://a.b/c/w-01234567.npz"


@pytest.fixture(autouse=True)
def hub(monkeypatch, tmp_path) -> Path:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.mark.parametrize(
    ("url", "name"), [(URL, "w-01234567.npz"), ("https://a.b/c/", "weights"), ("https://a.b/w.npz?x=1", "w.npz?x=1")]
)
def test_a_download_is_kept_by_its_whole_address(hub, url, name):
    """As in earlier versions, which have downloaded it already."""
    assert source._place(url) == hub / "vit_lightning" / hashlib.sha256(url.encode()).hexdigest()[:16] / name


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("vit-0123abcd.pth", "0123abcd"),
        (f"vit-{'a' * 64}.npz", "a" * 64),
        (f"vit-{'a' * 65}.npz", ""),
        ("vit-0123abc.pth", ""),
        ("vit-0123abcd", ""),
        ("vit-0123abcd.tar.gz", ""),
        ("vit_0123abcd.pth", ""),
        ("vit-0123ABCD.pth", ""),
        ("vit-0123abcd-more.pth", ""),
    ],
)
def test_names_that_state_the_start_of_a_checksum(name, start):
    assert source._checksum_in(name) == start


def test_what_is_at_hand_needs_no_download(hub, tmp_path):
    stored = "https://storage.googleapis.com/bucket/w.npz"
    for address in (URL, f"{URL}#sha256={'0' * 64}", "gs://bucket/w.npz", stored):
        assert not is_at_hand(address)
    for url in (URL, stored):
        source._place(url).parent.mkdir(parents=True)
        source._place(url).touch()
    for address in (URL, f"{URL}#sha256={'0' * 64}", "gs://bucket/w.npz", stored):
        assert is_at_hand(address)
    assert not is_at_hand(f"{URL}.other")
    for path in (str(tmp_path), "none.npz", "s3://a/b"):  # which fetch takes, or refuses, at once
        assert is_at_hand(path)


def test_a_repository_is_at_hand_where_the_hub_s_cache_has_it(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    asked: list[tuple] = []

    def snapshot(repo: str, revision: str | None, local_files_only: bool) -> str:
        asked.append((repo, revision, local_files_only))
        if repo == "a/none":
            raise FileNotFoundError
        if repo == "a/odd":
            raise ValueError
        return "somewhere"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert is_at_hand("hf://a/b") and is_at_hand("hf://a/b@v1/w.npz")
    assert not is_at_hand("hf://a/none") and not is_at_hand("hf://a/odd")
    assert asked == [("a/b", None, True), ("a/b", "v1", True), ("a/none", None, True), ("a/odd", None, True)]
    assert is_at_hand("hf://no-repository")  # which fetch refuses
    monkeypatch.setattr(source, "find_spec", lambda name: None)
    assert is_at_hand("hf://a/none")


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("a/b", ("a/b", None, None)),
        ("a.b/c-d_e@v1.0", ("a.b/c-d_e", "v1.0", None)),
        ("a/b/sub/w.npz", ("a/b", None, "sub/w.npz")),
        ("a/b@main/w.npz", ("a/b", "main", "w.npz")),
    ],
)
def test_parts_of_an_address_of_the_hub(monkeypatch, tmp_path, address, parts):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    asked: list[tuple] = []

    def snapshot(repo: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((repo, revision, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "sub").mkdir()
    for name in ("w.npz", "sub/w.npz"):
        (tmp_path / name).touch()
    repo, revision, file = parts
    assert fetch(f"hf://{address}") == (tmp_path / file if file else tmp_path)
    configs = ["config.json", "preprocessor_config.json"]
    patterns = [file, *configs] if file else [*configs, "*.safetensors", "*.safetensors.index.json"]
    assert asked == [(repo, revision, patterns)]
    assert source.HUB_PICKLES == ["pytorch_model*.bin", "pytorch_model.bin.index.json"]


@pytest.mark.parametrize("error", [OSError("one\ntwo"), ValueError(""), RuntimeError("one")])
def test_what_the_hub_says_is_one_line(monkeypatch, error):
    huggingface_hub = pytest.importorskip("huggingface_hub")

    def fail(*words: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    said = str(error).partition("\n")[0] or "ValueError"
    with pytest.raises(InputError, match=rf"^hf://a/b could not be fetched \({said}\): check the name and the network"):
        fetch("hf://a/b")


def test_local_paths_are_those_of_the_person(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.npz").touch()
    (tmp_path / "folder").mkdir()
    assert fetch("~/w.npz") == tmp_path / "w.npz" and fetch("folder") == Path("folder")
    with pytest.raises(InputError, match=rf"^There are no weights at 'none' in {tmp_path}: give an existing file"):
        fetch("none")
