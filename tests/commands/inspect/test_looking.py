"""The pass of `inspect` over images, step by step."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from vit_lightning.classifier import Classifier
from vit_lightning.commands.inspect import looking as module
from vit_lightning.commands.inspect.choices import Choices
from vit_lightning.commands.inspect.looking import Looking, _drawn
from vit_lightning.data.sampling import BROKEN
from vit_lightning.errors import InputError
from vit_lightning.inspection.attention import mean_distance

ALL = {"asked": ("distance", "pca", "embedding", "ablation", "relevance"), "layers": (-1,), "heads": None}
ALL |= {"images": 7, "maps": 7, "relevance_class": None, "embeddings": None, "ablation_images": 4, "formats": ("png",)}


def looking(folder, count: int = 7, loss: str = "softmax", **choices) -> Looking:
    torch.manual_seed(0)
    model = Classifier({"variant": "mu/8", "depth": 2, "patch": 4}, num_classes=3, image_size=8, loss=loss)
    model.configure_model()
    torch.nn.init.normal_(model.net.head.weight)
    data = SimpleNamespace(images=range(count), names=[f"{number}.png" for number in range(count)])
    made = Looking(model.eval(), data, Choices(**ALL | choices), folder, shows=False)
    made.configure_model()
    made.on_predict_start()
    return made


IMAGES = torch.rand(7, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, BROKEN, -1, 1, 0])
READ = [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("entries", [2**25, 1])
def test_sums_of_batches_and_parts_are_those_of_all_images(tmp_path, monkeypatch, entries):
    """Of one image at a time too; the broken one counts nothing, and its place stays its own."""
    monkeypatch.setattr(module, "MOST_ENTRIES", entries)
    made = looking(tmp_path)
    with torch.no_grad():
        for part in (slice(0, 4), slice(4, 7)):
            made.predict_step((IMAGES[part], LABELS[part]), 0)
        seen = made.model.normalise(IMAGES[READ])
        attention, features = made.net.attention(seen), made.net.features(seen)
        logits = made.net(seen)
    sums = made.sums
    assert sums.count == 6 and sums.labels == [0, 1, 2, -1, 1, 0] and sums.pca.count == 6 * 4
    expected = mean_distance(attention, (2, 2), 4).sum(1).double()
    torch.testing.assert_close(sums.distance, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(torch.stack(sums.features), features, atol=1e-5, rtol=1e-4)
    assert [path.name for path in sums.drawn] == [f"{place}.npz" for place in READ]
    for number, path in enumerate(sums.drawn):
        arrays = np.load(path)
        assert (arrays["place"], arrays["label"]) == (READ[number], LABELS[READ[number]])
        best = int(logits[number].argmax())
        assert arrays["best"] == arrays["class"] == best
        np.testing.assert_allclose(arrays["probability"], logits[number].softmax(0)[best], atol=1e-5)
        np.testing.assert_allclose(arrays["image"], IMAGES[READ[number]])
        assert arrays["tokens"].shape == (5, made.net.config.width) and "gradient_relevance" in arrays
    kept = set(_drawn(7, 4).tolist()) - {3}
    assert len(sums.kept) == len(kept)
    assert all(torch.equal(one, IMAGES[place]) for one, place in zip(sums.kept, sorted(kept), strict=True))


def test_of_several_labels_each_has_its_own_probability(tmp_path):
    made = looking(tmp_path, loss="sigmoid", relevance_class="1", asked=("relevance",))
    several = torch.eye(3)[[0, 1]]
    with torch.no_grad():
        made.predict_step((IMAGES[:2], several), 0)
        logits = made.net(made.model.normalise(IMAGES[:2]))
    assert made.sums.count == 2 and made.sums.kept == [] and made.sums.features == [] and made.sums.pca.count == 0
    arrays = np.load(made.sums.drawn[1])
    assert arrays["class"] == 1 and arrays["label"] == -1 and arrays["best"] == logits[1].argmax()
    np.testing.assert_allclose(arrays["probability"], logits[1, 1].sigmoid(), atol=1e-5)


def test_as_many_images_are_drawn_as_are_wanted(tmp_path):
    made = looking(tmp_path, maps=2, asked=("rollout",))
    with torch.no_grad():
        made.predict_step((IMAGES, torch.arange(7) % 3), 0)
    assert [path.name for path in made.sums.drawn] == [f"{place}.npz" for place in _drawn(7, 2)]
    assert made.sums.count == 7 and "gradient_relevance" not in np.load(made.sums.drawn[0])


def test_an_image_whose_features_are_no_numbers_is_named(tmp_path):
    made = looking(tmp_path)
    images = IMAGES.clone()
    images[5] = torch.nan
    with torch.no_grad(), pytest.raises(InputError, match=r"the features of 5\.png are not finite"):
        made.predict_step((images, LABELS), 0)


@pytest.mark.parametrize(("total", "most"), [(5, 5), (5, 9), (0, 3)])
def test_where_there_are_no_more_all_are_drawn(total, most):
    assert _drawn(total, most).tolist() == list(range(total))


def test_some_are_drawn_the_same_ones_every_time_without_a_pattern():
    found = _drawn(1000, 100)
    assert len(set(found.tolist())) == 100 and (np.diff(found) > 0).all()
    assert np.array_equal(found, _drawn(1000, 100)) and len(set(np.diff(found))) > 5
