"""From the sums of a pass to figures: means, sheets by the page, and what each image is said to show."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.commands.inspect.test_looking import IMAGES, LABELS, READ, Looking, looking
from vit_lightning.commands.inspect import pictures as module
from vit_lightning.commands.inspect.pictures import Pictures
from vit_lightning.data.sampling import BROKEN


class Kept:
    """Stands for the results: figures by name, with what they say and their arrays."""

    def __init__(self) -> None:
        self.figures: dict[str, tuple[Any, str, dict]] = {}
        self.held: dict[str, dict] = {}
        self.singles: list[str] = []
        self.lists: list[str] = []

    def figure(self, name: str, figure: Any, said: str, arrays: dict | None = None) -> None:
        assert name not in self.figures
        self.figures[name] = figure, said, arrays or {}

    def arrays(self, name: str, arrays: dict) -> None:
        self.held[name] = arrays

    def single(self, name: str, figure: Any) -> None:
        self.singles.append(name)

    def listed(self, name: str, said: str) -> None:
        self.lists.append(f"{name}: {said}")


class Drawn:
    """Stands for the modules that draw: returns what it is given."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given: (name, given)


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Look at seven images, one of which is broken, in two batches, and draw some figures."""
    for name in ("charts", "photographs"):
        monkeypatch.setattr(module, name, Drawn())

    def run(*figures: str, labels: torch.Tensor = LABELS, **choices: object) -> tuple[Looking, Kept, Pictures]:
        made = looking(tmp_path, asked=figures, **choices)
        made.inspected.data = SimpleNamespace(class_names=["ant", "bee", "cow"])
        made.model.class_names = ["ant", "bee", "cow"]
        with torch.no_grad():
            for part in (slice(0, 4), slice(4, 7)):
                made.predict_step((IMAGES[part], labels[part]), 0)
        kept = Kept()
        pictures = Pictures(made, kept, "resampled")
        pictures.draw()
        return made, kept, pictures

    return run


def test_distances_are_the_mean_of_the_images_that_were_read(drawn):
    made, kept, pictures = drawn("distance")
    (_, (found, uniform, count)), said, arrays = kept.figures["distance"]
    torch.testing.assert_close(found, made.sums.distance / 6)
    assert count == 6 and arrays["distance"] is found and said.endswith(f"uniform attention {uniform:.1f} px")
    # Of two by two patches of 4 pixels: itself, two beside it, and one across.
    assert uniform == pytest.approx((0 + 4 + 4 + 32**0.5) / 4)
    assert pictures.numbers["mean_distance"] == {"pixels": found.tolist(), "uniform": uniform, "patch": 4}


@pytest.mark.parametrize(("page", "pages"), [(6, [6]), (4, [4, 2]), (2, [2, 2, 2]), (5, [5, 1])])
def test_sheets_hold_a_page_of_images_in_their_order(drawn, monkeypatch, page, pages):
    monkeypatch.setattr(module, "PAGE", page)
    _, kept, _ = drawn("rollout")
    names = ["rollout", *(f"rollout_{number}" for number in range(2, len(pages) + 1))]
    assert list(kept.figures) == names
    shown = [kept.figures[name][0][1][0] for name in names]
    assert [len(each) for each in shown] == pages
    order = [f"{place}.png" for place in READ]
    assert [photograph.name for each in shown for photograph in each] == order
    assert {said for _, said, _ in kept.figures.values()} == {
        "where the attention of all layers leads, 6 images",
    }
    assert kept.singles == [] and kept.lists == ["images: maps of 6 images, as arrays in a .npz each"]
    assert list(kept.held) == [f"images/{place:05d}" for place in READ]
    for place, arrays in zip(READ, kept.held.values(), strict=True):
        assert arrays["name"] == f"{place}.png" and arrays["label"] == LABELS[place]
        assert {"rollout", "norms", "image", "best", "class", "probability"} <= arrays.keys()


def test_heads_have_a_figure_for_each_image_and_layer(drawn):
    _, kept, _ = drawn("heads", layers=(0, -1), maps=2)
    stems = [name.removeprefix("images/") for name in kept.held]
    assert len(stems) == 2 and kept.singles == [f"heads/{stem}_layer{layer}" for stem in stems for layer in (0, 1)]
    assert kept.lists[0] == "heads: attention of single heads, a figure for each of 2 images"


def test_an_image_is_said_to_show_its_class_or_that_which_was_asked_for(drawn):
    made, kept, pictures = drawn("relevance")
    (_, (shown,)), said, _ = kept.figures["relevance"]
    with torch.no_grad():
        shares = made.net(made.model.normalise(IMAGES[READ])).softmax(1)
    best = [f"{['ant', 'bee', 'cow'][int(row.argmax())]} {100 * float(row.max()):.0f} %" for row in shares]
    assert [photograph.said for photograph in shown] == best
    assert said == "patches that speak for the best class"
    assert pictures._said({}) == "" and pictures._said({"class": 7, "probability": 0.251}) == "7 25 %"


def test_components_colour_the_maps_of_all_images(drawn):
    _, kept, pictures = drawn("pca")
    assert list(kept.figures) == ["pca_maps"] and kept.held["pca"]["axes"].shape == (3, 32)
    assert pictures.numbers["pca_shares"] == kept.held["pca"]["shares"].tolist()
    assert kept.figures["pca_maps"][1] == "components of the patches of 6 images, as colours"
    assert all("pca" in arrays for name, arrays in kept.held.items() if name.startswith("images/"))


def test_points_keep_their_labels_and_images_of_one_class_are_told(drawn, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(module, "report", said.append)
    monkeypatch.setattr(module, "embed", lambda features, method: features[:, :2])
    made, kept, _ = drawn("embedding", embeddings=("pca",))
    (_, (places, method, labels, names)), text, arrays = kept.figures["embedding_pca"]
    assert method == "pca" and labels.tolist() == [0, 1, 2, -1, 1, 0] and names == ["ant", "bee", "cow"]
    np.testing.assert_array_equal(places, torch.stack(made.sums.features).numpy()[:, :2])
    assert text == "6 images of 3 classes, near where their features are alike" and said == []
    assert arrays["labels"].tolist() == labels.tolist()
    _, kept, _ = drawn("embedding", labels=torch.full((7,), 1), embeddings=("pca",))
    assert said == ["embedding all images are of one class, so that the colours of the map tell nothing"]
    assert kept.figures["embedding_pca"][1] == "7 images of 1 class, near where their features are alike"


def test_what_a_net_cannot_show_is_left_out_and_said(drawn, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(module, "report", said.append)
    labels = torch.full((7,), BROKEN)
    labels[0] = 1
    _, kept, _ = drawn("distance", "embedding", labels=labels)
    assert list(kept.figures) == ["distance"] and len(said) == 1 and said[0].startswith("left out embedding: ")


def test_what_is_lost_is_measured_on_the_images_that_were_kept(drawn, monkeypatch):
    asked = []

    def lost(net, seen, by, batch, advance) -> SimpleNamespace:
        asked.append((by, seen))
        return SimpleNamespace(features=torch.tensor([[0.0, 0.1], [0.3, 0.2]]), changed=None)

    monkeypatch.setattr(module, "ablate_heads", lost)
    monkeypatch.setattr(module, "ablate_tokens", lambda *words: {"patches": lost(*words)})
    made, kept, pictures = drawn("ablation")
    assert [by for by, _ in asked] == ["mean", "shuffle"] * 2
    kept_images = made.model.normalise(torch.stack(made.sums.kept))
    order = np.random.default_rng(0).permutation(len(made.sums.kept))
    assert all(torch.equal(seen, kept_images[order]) for _, seen in asked)
    count = len(made.sums.kept)
    assert kept.figures["ablation_heads"][1] == f"by head, on {count} images: most of all layer 1, head 0"
    expected = torch.tensor([[0.0, 0.1], [0.3, 0.2]]).tolist()
    assert pictures.numbers["lost_without_head"] == {"mean": expected, "shuffle": expected}
    assert list(pictures.numbers["lost_without_tokens"]) == ["mean_patches", "shuffle_patches"]


def test_images_of_files_come_normalised_a_batch_at_a_time(drawn, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)
    made, _, pictures = drawn("rollout")
    found = list(pictures._batches(made.sums.drawn))
    assert [len(batch) for batch in found] == [4, 2]
    torch.testing.assert_close(torch.cat(found), made.model.normalise(IMAGES[READ]))
    assert all(isinstance(path, Path) for path in made.sums.drawn)
