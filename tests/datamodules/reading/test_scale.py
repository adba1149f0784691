"""ImageNet-21k's 14 million file names: time to index them, time to start from the index, memory of a worker."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from datamodules.imagenet21k import ImageNet21k
from datamodules.reading import array_cache, synsets
from datamodules.reading.image_index import VERSION, FolderImages, build
from vit_lightning.data.sampling import Draw, TrainSampler

FALL11 = 14_197_122


class Names:
    """The names of a set's images, for lack of files."""

    def __init__(self, source) -> None:
        self.source = source

    def __getitem__(self, draw: Draw) -> tuple[int, str]:
        return int(self.source.labels[draw.index]), self.source.keys[draw.index]


def generate(root: Path, wnids: list[str], images: int) -> Iterator[FolderImages]:
    """As many names as asked for, in folders that are there; the files are not."""
    each, more = divmod(images, len(wnids))
    yield FolderImages("", array_cache.file_state(root), "", [], [])
    for place, wnid in enumerate(wnids):
        names = sorted(f"{wnid}_{number}.JPEG" for number in range(1, 1 + each + (place < more)))
        yield FolderImages(wnid, array_cache.file_state(root / wnid), wnid, names, [])


def index(root: Path, cache: Path, images: int, classes: int) -> dict[str, float]:
    wnids = synsets.wnids("fall11")[:classes]
    for wnid in wnids:
        (root / wnid).mkdir(parents=True)
    file = array_cache.cache_file(cache, root.resolve(), VERSION)
    began = time.perf_counter()
    build(generate(root, wnids, images), file)
    return {"index s": time.perf_counter() - began, "index MiB": file.stat().st_size / 2**20}


def memory(pid: int | str) -> dict[str, float]:
    """MiB that a process alone uses, with its share of what it uses with others, and with all of that."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    own = kib["Private_Clean"] + kib["Private_Dirty"]
    return {"own": own / 1024, "share": kib["Pss"] / 1024, "resident": kib["Rss"] / 1024}


def start(root: Path, cache: Path, draws: int) -> dict[str, Any]:
    """Start from the index and let two workers look up names in random order."""
    began = time.perf_counter()
    data = ImageNet21k(root, label_set="fall11", val_images=min(102_400, draws), cache=cache)
    data.prepare_data()
    data.setup("fit")
    sampler = TrainSampler(data.train_set)
    data.train_set[next(iter(sampler)).index]
    seconds = time.perf_counter() - began
    batches = iter(DataLoader(Names(data.train_set), 1000, sampler=sampler, num_workers=2, collate_fn=list))
    pairs = {(label, key.split("/")[0]) for _ in range(draws // 1000) for label, key in next(batches)}
    return {
        "start s": seconds,
        "images": len(data.train_set) + len(data.val_set),
        "right labels": all(data.wnids[label] == wnid for label, wnid in pairs),
        "classes": len(pairs),
        "main": memory("self"),
        "workers": [memory(worker.pid) for worker in batches._workers],
    }


@pytest.mark.filterwarnings("ignore:.*classes have no images")
def test_generated_names(tmp_path):
    index(tmp_path / "21k", tmp_path / "cache", 20_000, 50)
    found = start(tmp_path / "21k", tmp_path / "cache", 10_000)
    assert (found["images"], found["classes"], found["right labels"]) == (20_000, 50, True)


@pytest.mark.slow
def test_fourteen_million_generated_names(tmp_path):
    """Issue 5: start-up from the index below 10 s, and a worker adds less than 300 MB, all of the index counted."""
    root, cache = tmp_path / "21k", tmp_path / "cache"
    built = index(root, cache, FALL11, 21_841)
    words = [sys.executable, __file__, root, cache, "1000000"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(built | found, indent=1))
    assert (found["images"], found["classes"], found["right labels"]) == (FALL11, 21_841, True)
    assert found["start s"] < 10
    assert all(worker["own"] + built["index MiB"] < 300 for worker in found["workers"])


if __name__ == "__main__":
    print(json.dumps(start(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
