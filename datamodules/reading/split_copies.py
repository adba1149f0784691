"""Copies of training images among those of other splits, by which a net would be scored on what trained it."""

import filecmp
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from datamodules.reading.remote_files import RemoteFile, is_remote
from datamodules.reading.webdataset import TarSamples
from vit_lightning.errors import InputError

TO_SCORE = "to score the images that trained, run test with --data.train null"
LOOKED_AT = 4096
"""Samples of a split whose copies are looked for, some of each tar."""
READ = 1024
"""Pairs of samples of one name and size whose bytes are compared."""
READ_FROM_AFAR = 4
"""As many, where whole tars would be fetched."""
MOST_PAIRS = 2**18
"""Such pairs that are found; samples of one size in many tars have more."""
ALIKE = 64
"""Samples of a tar that are compared with such a sample: an image that stands there again is no sign of a copy."""
EDGE = 4096
"""Bytes at either end of two files that are compared before all others."""


def check_files(splits: Mapping[str, Sequence[Path]]) -> None:
    """Refuse a file of validation or test images that holds the bytes of one of training images.

    Args:
        splits: the files of each split; a folder stands for the Arrow files in it.

    Raises:
        InputError: naming both.
    """
    training = defaultdict(list)
    for file in _plain(splits.get("train", ())):
        training[file.stat().st_size].append(file)
    for split, files in splits.items():
        for file in _plain(files) if split != "train" else ():
            if other := next((one for one in training.get(file.stat().st_size, ()) if _are_equal(one, file)), None):
                raise _copy(split, file, other)


def copies_that_train(files: Sequence[Path], is_drawn: bool) -> str | None:
    """Say that two files of training images hold the same bytes, None if no two do.

    Args:
        files: those that hold images.
        is_drawn: whether validation images are drawn from them, which would train by the copy.

    Raises:
        InputError: they are drawn; naming both files.
    """
    sizes = {file: file.stat().st_size for file in _plain(files)}
    often = Counter(sizes.values())
    seen: defaultdict[tuple[int, bytes, bytes], list[Path]] = defaultdict(list)
    for file, size in sizes.items():
        if size == 0 or often[size] == 1:
            continue
        alike = seen[size, *_ends(file)]
        if other := next((one for one in alike if filecmp.cmp(one, file, shallow=False)), None):
            return _twins(file, other, is_drawn)
        alike.append(file)
    return None


def _twins(file: Path | str, other: Path | str, is_drawn: bool) -> str:
    said = f"{file} is a copy of {other}, and both train"
    if is_drawn:
        raise InputError(
            f"{said}: images drawn from one for validation would train by the other; take one of them away, or give "
            "validation images of their own"
        )
    return f"{said}; take one of them away if their images are not to count twice"


def shards_that_train(shards: Sequence[RemoteFile], is_drawn: bool) -> str | None:
    """Say that two shards of training images are copies, by their checksums or their bytes, as `copies_that_train`."""
    seen: dict[str, str] = {}
    for shard in shards:
        if shard.sha256 and seen.setdefault(shard.sha256, shard.url) != shard.url:
            return _twins(shard.url, seen[shard.sha256], is_drawn)
    return copies_that_train([Path(one.url) for one in shards if _is_bare(one)], is_drawn)


def check_shards(splits: Mapping[str, Sequence[RemoteFile]]) -> None:
    """Refuse a shard of validation or test images that is a copy of one of training, by its checksum or its bytes.

    A shard that serves for both by its address is meant to.

    Args:
        splits: the shards of each split.

    Raises:
        InputError: naming both.
    """
    training = splits.get("train", ())
    urls = {shard.url for shard in training}
    others = {split: [one for one in some if one.url not in urls] for split, some in splits.items() if split != "train"}
    known = {shard.sha256: shard.url for shard in training if shard.sha256}
    for split, shards in others.items():
        if copy := next((shard for shard in shards if shard.sha256 in known), None):
            raise _copy(split, copy.url, known[copy.sha256])
    bare = {"train": training, **others}
    check_files({split: [Path(one.url) for one in some if _is_bare(one)] for split, some in bare.items()})


def _is_bare(shard: RemoteFile) -> bool:
    """Tell whether a shard lies here and nothing says its checksum."""
    return shard.sha256 is None and not is_remote(shard.url)


def _copy(split: str, file: Path | str, other: Path | str) -> InputError:
    return InputError(
        f"{file} holds {split} images and is a copy of {other}, whose images train; take one of them away"
    )


def check_samples(train: TarSamples, other: TarSamples, split: str) -> None:
    """Refuse a sample of a split that is a copy of one of training: of its name, its size and its bytes.

    Many writers number the samples of each tar anew, so that a name and a size alone tell little.

    Args:
        train: the samples that train.
        other: those of another split.
        split: what it is called.

    Raises:
        InputError: naming the sample and both tars.
    """
    pairs = _pairs_of_tars(train, other, _spread(other))
    if train.files.remote or other.files.remote:
        pairs = [pair[:1] for pair in pairs if len(pair) > 1][:READ_FROM_AFAR]
    found = [both for pair in pairs for both in pair[: max(1, READ // len(pairs))]]
    for first, second in found[:: -(-len(found) // READ) or 1]:
        if (content := _bytes(train, first)) == _bytes(other, second) and not _is_again(train, first, content):
            raise InputError(
                f"{_url(other, second)}: sample {other.keys[second][-80:]} is a {split} image, and "
                f"{_url(train, first)} has the same one, which trains; leave one of the tars out of --data.train or of "
                f"--data.{split}"
            )


def _plain(files: Sequence[Path]) -> list[Path]:
    return [one for file in files for one in (sorted(file.glob("*.arrow")) if file.is_dir() else [file])]


def _are_equal(one: Path, other: Path) -> bool:
    """Tell whether two files of one size hold the same bytes."""
    size = one.stat().st_size
    if size == 0:
        return False
    if _ends(one) != _ends(other):
        return False
    return filecmp.cmp(one, other, shallow=False)


def _ends(file: Path) -> tuple[bytes, bytes]:
    """Return the bytes at either end of a file."""
    with file.open("rb") as opened:
        first = opened.read(EDGE)
        opened.seek(max(0, file.stat().st_size - EDGE))
        return first, opened.read(EDGE)


def _spread(samples: TarSamples) -> np.ndarray:
    """Return the numbers of some samples, evenly over each tar."""
    starts = np.append(np.flatnonzero(np.diff(samples.tars, prepend=-1)), len(samples))
    each = max(1, LOOKED_AT // max(1, len(starts) - 1))
    found = [np.linspace(start, end - 1, min(each, end - start)) for start, end in pairwise(starts)]
    return np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)


def _pairs_of_tars(train: TarSamples, other: TarSamples, looked_at: np.ndarray) -> list[list[tuple[int, int]]]:
    """Return the samples of one name and size in each pair of tars, the pairs that share most first."""
    wanted = defaultdict(list)
    for number in looked_at.tolist():
        wanted[other.keys[number], int(other.sizes[number])].append(number)
    may_be = np.flatnonzero(np.isin(train.sizes, other.sizes[looked_at])).tolist()
    pairs = ((one, same) for one in may_be for same in wanted.get((train.keys[one], int(train.sizes[one])), ()))
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for one, same in islice(pairs, MOST_PAIRS):
        found[int(train.tars[one]), int(other.tars[same])].append((one, same))
    return sorted(found.values(), key=len, reverse=True)


def _is_again(samples: TarSamples, number: int, content: bytes) -> bool:
    """Tell whether other samples of the same tar hold the same image, as black tiles do."""
    alike = np.flatnonzero((samples.sizes == samples.sizes[number]) & (samples.tars == samples.tars[number]))
    return any(_bytes(samples, one) == content for one in alike[:ALIKE].tolist() if one != number)


def _bytes(samples: TarSamples, number: int) -> bytes:
    return samples.files.read(int(samples.tars[number]), int(samples.places[number]), int(samples.sizes[number]))


def _url(samples: TarSamples, number: int) -> str:
    return samples.files[int(samples.tars[number])].url
