"""Where weights come from: a local path, an https address or the Hugging Face Hub, downloaded once."""

import hashlib
import re
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.distributed
from filelock import FileLock

from vit_lightning.errors import InputError
from vit_lightning.files import check_regular, looked_for_in, meant, written

# What a net needs from a repository; a pickled file is fetched only where there are no safetensors.
HUB_FILES = ["config.json", "preprocessor_config.json", "*.safetensors", "*.safetensors.index.json"]
HUB_PICKLES = ["pytorch_model*.bin", "pytorch_model.bin.index.json"]
HUB_ADDRESS = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w.-]+))?(?:/(.+))?")


def fetch(source: str | Path) -> Path:
    """Returns the local file or folder that a source names, downloading it where needed.

    Args:
        source: a path; an https address, after which `#sha256=<hex>` may state the file's checksum; or
            `hf://owner/repo[/file]`, with `@revision` after the repository if wanted. A file name that ends in
            `-<8 hex digits>` before its suffix states the start of its checksum, as torch.hub's files do.

    Raises:
        InputError: nothing is there, the download failed, or the checksum is another one.
    """
    text = str(source)
    if text.startswith("hf://"):
        with _rank_zero_first():
            return _from_hub(text.removeprefix("hf://"))
    if text.startswith("gs://"):
        text = f"https://storage.googleapis.com/{text.removeprefix('gs://')}"
    if text.startswith("https://"):
        with _rank_zero_first():
            return _from_web(text)
    if "://" in text:
        raise InputError(
            f"Weights cannot come from {text!r}: give a local path, an https:// address or hf://owner/repo."
        )
    path = Path(text).expanduser()
    if not path.exists():
        raise InputError(
            f"There are no weights at {text!r}{looked_for_in(path)}: give an existing file or folder, https://... or "
            f"hf://...{meant(path)}"
        )
    check_regular(path, text)
    return path


def is_at_hand(source: str) -> bool:
    """Return whether `fetch` would find the file or folder without a download."""
    if source.startswith("hf://"):
        return _is_cached(source.removeprefix("hf://"))
    if source.startswith("gs://"):
        source = f"https://storage.googleapis.com/{source.removeprefix('gs://')}"
    return not source.startswith("https://") or _place(source.partition("#sha256=")[0]).exists()


def _is_cached(address: str) -> bool:
    """Return whether the Hub's own cache holds a repository of weights; True where `fetch` would refuse its name."""
    match = HUB_ADDRESS.fullmatch(address)
    if match is None or find_spec("huggingface_hub") is None:
        return True
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(match[1], revision=match[2], local_files_only=True)
    except (OSError, ValueError):
        return False
    return True


def _place(url: str) -> Path:
    """Where a download is kept."""
    folder = Path(torch.hub.get_dir()) / "vit_lightning" / hashlib.sha256(url.encode()).hexdigest()[:16]
    return folder / (url.rsplit("/", 1)[1] or "weights")


@contextmanager
def _rank_zero_first() -> Iterator[None]:
    """Lets the first process of a distributed run download while the others wait, and then find the file."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    first = not distributed or torch.distributed.get_rank() == 0
    if not first:
        torch.distributed.barrier()
    try:
        yield
    finally:
        if distributed and first:
            torch.distributed.barrier()


def _from_web(address: str) -> Path:
    """Downloads to a cache beside torch.hub's, completely or not at all."""
    url, _, checksum = address.partition("#sha256=")
    path = _place(url)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / "lock"):
        if not path.exists():
            with written(path) as partial:
                _download(url, partial)
                _check(partial, checksum or _checksum_in(path.name), url)
        elif checksum:
            _check(path, checksum, url)
    return path


def _download(url: str, path: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=60) as response, path.open("wb") as file:
            shutil.copyfileobj(response, file)
            expected = response.headers.get("Content-Length")
    except OSError as error:
        raise InputError(f"The download of {url} failed ({error}): check the address and the network.") from error
    if expected is not None and path.stat().st_size != int(expected):
        raise InputError(f"The download of {url} ended after {path.stat().st_size} of {expected} bytes: try again.")


def _check(path: Path, checksum: str, url: str) -> None:
    """Compares the start of the file's sha256 with what is known of it."""
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if not actual.startswith(checksum.lower()):
        raise InputError(
            f"{url} has the sha256 {actual}, not {checksum}: the file is damaged or is not the one you want."
        )


def _checksum_in(name: str) -> str:
    """The start of the checksum that torch.hub's naming states; empty if there is none."""
    match = re.search(r"-([0-9a-f]{8,64})\.\w+$", name)
    return match[1] if match else ""


def _from_hub(address: str) -> Path:
    """Fetches a repository's weights, or one file with the config beside it, into the Hub's own cache."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise InputError(
            f'hf://{address} needs huggingface_hub, which is not installed: pip install "vit-lightning[hub]".'
        ) from error
    match = HUB_ADDRESS.fullmatch(address)
    if match is None:
        raise InputError(f"hf://{address} names no repository: write hf://owner/repo or hf://owner/repo/file.")
    repo, revision, file = match.groups()

    def snapshot(patterns: list[str]) -> Path:
        return Path(huggingface_hub.snapshot_download(repo, revision=revision, allow_patterns=patterns))

    try:
        if file:
            path = snapshot([file, *HUB_FILES[:2]]) / file
        elif not any((path := snapshot(HUB_FILES)).glob("*.safetensors")):
            path = snapshot([*HUB_FILES[:2], *HUB_PICKLES])
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"hf://{address} could not be fetched ({reason}): check the name and the network.") from error
    if not path.exists():
        raise InputError(f"The repository {repo} holds no file {file!r}: look at its list of files.")
    return path
