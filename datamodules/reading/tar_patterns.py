"""Names of tars from patterns: braces written out, and *, ? and [0-9] looked up in a folder or a remote place."""

import glob
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence

from datamodules.reading.damaged_files import reason
from datamodules.reading.downloads import file_system
from datamodules.reading.remote_files import is_remote
from datamodules.reading.splits import COPY, SPLIT_OF
from vit_lightning.errors import InputError

ENDING = re.compile(r"\.(tar(\.gz)?|tgz)$")
MOST = 10**6
"""Names that a range may stand for."""


def matching(address: str, patterns: str) -> list[str]:
    """Return the addresses of the tars that patterns joined by :: mean, each once, those of a pattern sorted.

    Raises:
        InputError: if a pattern is a shell command, or its place cannot be listed.
    """
    if command := next((text for text in (address, *patterns.split("::")) if text.lstrip().startswith("pipe:")), None):
        raise InputError(
            f"{command!r:.80}: pipe: runs a shell command, which WebShards does not; give the address itself, such as "
            "s3://bucket/train-{000..146}.tar"
        )
    found = [_found(address, one) for pattern in patterns.split("::") for one in expand(pattern.strip())]
    for urls in found:
        _check_writings(urls)
    return list(dict.fromkeys(url for urls in found for url in urls))


def other_tars(address: str, tars: Sequence[str], lacking: Collection[str]) -> list[str]:
    """Say which tars lie beside those that train, are called as those of other splits are, and are not asked for.

    Args:
        address: folder that the names of tars start from; of a remote place nothing is said.
        tars: those that train.
        lacking: the splits that were not asked for.
    """
    folders = dict.fromkeys(os.path.dirname(tar) for tar in tars if not is_remote(tar))
    outer = [os.path.dirname(folder) for folder in folders if SPLIT_OF.get(os.path.basename(folder).lower()) == "train"]
    beside = [os.path.join(one, name) for one in dict.fromkeys(outer) for name in SPLIT_OF if SPLIT_OF[name] in lacking]
    found: dict[str, list[str]] = {}
    for folder in (*folders, *beside):
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*"))) if lacking else ():
            split = _split_of(os.path.basename(path)) or (
                _split_of(os.path.basename(folder)) if folder in beside else ""
            )
            if ENDING.search(path.lower()) and split in lacking and path not in tars:
                found.setdefault(split, []).append(path)
    said = []
    for split, paths in found.items():
        pattern = re.sub(r"\d+", "*", os.path.relpath(paths[0], address))
        said.append(
            f"{paths[0]} is not read ({len(paths)} such tars); give --data.{split} {shlex.quote(pattern)} if it holds "
            f"{split} images"
        )
    return said


def _split_of(name: str) -> str:
    """Return the split whose name is the first such word of a tar's or a folder's name; empty: there is none."""
    return next((SPLIT_OF[word] for word in re.findall("[a-z]+", name.lower()) if word in SPLIT_OF), "")


def _check_writings(urls: Sequence[str]) -> None:
    """Refuse tars of other sets beside those of a split that one pattern means, as train_old-0 and trainval-0 may be.

    Those of the split are called by its name and numbers alone, as train-0 is.
    """
    stems = {url: ENDING.sub("", url.rpartition("/")[2].lower()) for url in urls}
    words = {url: [word for word in re.findall("[a-z]+", stem) if word != "of"] for url, stem in stems.items()}
    plain = next((url for url in urls if len(words[url]) == 1 and words[url][0] in SPLIT_OF), None)
    if plain is None:
        return
    split = words[plain][0]
    urls_of = {stem: url for url, stem in stems.items()}
    for url in urls:
        word, *others = words[url] or [""]
        is_other = word.startswith(split) and (word != split or any(len(each) > 1 for each in others))
        original = urls_of.get(COPY.sub("", stems[url]), url)
        if is_other or original != url:
            first = plain if original == url else original
            raise InputError(
                f"{first} and {url} may be tars of two sets; remove those of one, or name the tars of each, joined by "
                "::, as in train-*.tar::trainval-*.tar"
            )


def expand(pattern: str) -> list[str]:
    """Write out the braces of a pattern as bash does: {000..146}, {0..8..2} and {a,b}."""
    found = re.search(r"\{([^{}]*(?:,|\.\.)[^{}]*)\}", pattern)
    if not found:
        return [pattern]
    ends = re.fullmatch(r"(\d+)\.\.(\d+)(?:\.\.(\d+))?", found[1])
    parts = _range(*ends.groups()) if ends else found[1].split(",")
    return [one for part in parts for one in expand(pattern[: found.start()] + part + pattern[found.end() :])]


def _range(first: str, last: str, step: str | None) -> Iterator[str]:
    padded = any(end[0] == "0" and len(end) > 1 for end in (first, last))
    width = max(len(first), len(last)) if padded else 0
    begin, end, by = int(first), int(last), int(step or 1) or 1
    if abs(end - begin) // by >= MOST:
        raise InputError(f"{{{first}..{last}}} stands for more than {MOST:,} names; give a shorter range")
    numbers = range(begin, end + 1, by) if begin <= end else range(begin, end - 1, -by)
    return (f"{number:0{width}d}" for number in numbers)


def _found(address: str, pattern: str) -> list[str]:
    """Return what one pattern without braces means; itself, if it is the name of one file."""
    url = pattern if is_remote(pattern) else f"{address}/{pattern}" if is_remote(address) else ""
    if url:
        return _listed(url) if re.search(r"[*]" if url.startswith("http") else r"[*?[]", url) else [url]
    path = os.path.join(address, pattern)
    if not glob.has_magic(pattern) or os.path.exists(path):
        return [path]
    return sorted(glob.glob(os.path.join(glob.escape(address), pattern), recursive=True))


def _listed(url: str) -> list[str]:
    system, path = file_system(url)
    try:
        return [system.unstrip_protocol(one) for one in sorted(system.glob(path))]
    except FileNotFoundError:
        return []
    except Exception as error:
        raise InputError(
            f"{url}: its place cannot be listed ({reason(error)}); write the names out, as in train-{{000..146}}.tar"
        ) from error
