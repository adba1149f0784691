"""Which images `inspect` looks at, what it sums of them, and how it parts a batch."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.commands.inspect.test_looking import IMAGES, READ, looking
from vit_lightning.commands.inspect import looking as module
from vit_lightning.commands.inspect.looking import InspectedData, _drawn
from vit_lightning.data.sampling import BROKEN
from vit_lightning.errors import InputError


class Named(list):
    """Images of these names, which are their pixels too."""

    @property
    def keys(self) -> list[str]:
        return [f"{name}.png" for name in self]


class Sets:
    """A datamodule whose sets differ, and which notes what it is asked for."""

    def __init__(self, num_classes: int | None = 3, **sets: Named | None) -> None:
        self.num_classes, self.stages = num_classes, []
        usual = {"val_set": Named("ab"), "test_set": Named("cde"), "train_subset": Named("fghi")}
        for name, images in (usual | {"train_set": Named("fghijk"), "predict_set": Named("xy")} | sets).items():
            setattr(self, name, images)

    def setup(self, stage: str) -> None:
        self.stages.append(stage)


def found(data: Sets, split: str = "val", most: int = 100) -> InspectedData:
    inspected = InspectedData(data, split, most)
    inspected.trainer = "its trainer"
    inspected.setup("predict")
    return inspected


@pytest.mark.parametrize(
    ("split", "names", "stage", "called"),
    [("val", "ab", "fit", "validation"), ("test", "cde", "test", "test"), ("train", "fghi", "fit", "training")],
)
def test_images_are_those_of_the_split(split, names, stage, called):
    data = Sets()
    inspected = found(data, split)
    assert [inspected.images[number] for number in range(len(inspected.images))] == list(names)
    assert inspected.names == [f"{name}.png" for name in names] and inspected.called == called
    assert data.stages == [stage] and data.trainer == "its trainer"


def test_unlabelled_images_are_those_that_are_given():
    data = Sets(num_classes=None)
    inspected = found(data)
    assert inspected.names == ["x.png", "y.png"] and (inspected.called, data.stages) == ("given", ["predict"])


def test_of_many_images_names_go_with_what_is_drawn():
    many = Named(f"{number}" for number in range(50))
    inspected = found(Sets(val_set=many), most=6)
    numbers = _drawn(50, 6).tolist()
    assert inspected.numbers.tolist() == numbers and len(inspected.images) == 6
    assert inspected.names == [f"{number}.png" for number in numbers]
    assert [inspected.images[place] for place in range(6)] == [str(number) for number in numbers]


@pytest.mark.parametrize(
    ("split", "sets", "said"),
    [
        ("val", {"val_set": None}, "Sets has no validation images to look at; give --split test or train, or other"),
        ("test", {"test_set": Named()}, "Sets has no test images to look at; give --split val or train, or other"),
        ("train", {"train_subset": None}, "Sets has no training images to look at; give --split val or test, or"),
        ("val", {"num_classes": None, "predict_set": None}, "Sets has no given images to look at; give other images"),
    ],
)
def test_a_set_without_images_names_the_others(split, sets, said):
    with pytest.raises(InputError, match=f"^{said}"):
        found(Sets(**sets), split)


# The pass ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "parts"),
    [(10**9, [[0, 1, 3, 4, 6]]), (100, [[0, 1], [3, 4], [6]]), (99, [[0], [1], [3], [4], [6]]), (1, None)],
)
def test_as_many_images_together_as_have_room_for_the_attention(tmp_path, monkeypatch, entries, parts):
    """Two heads of five tokens: 50 entries an image."""
    made = looking(tmp_path)
    assert made.net.config.heads == 2
    monkeypatch.setattr(module, "MOST_ENTRIES", entries)
    assert made._parts([0, 1, 3, 4, 6]) == (parts or [[0], [1], [3], [4], [6]])


def norms_and_tokens(made, images) -> tuple:
    made.sums.norms.add = lambda norms: added.append(norms)
    made.sums.pca.add = lambda tokens: given.append(tokens)
    added: list[torch.Tensor] = []
    given: list[torch.Tensor] = []
    with torch.no_grad():
        for part in images:
            made.predict_step((IMAGES[part], torch.zeros(len(part), dtype=torch.int64)), 0)
    return torch.cat(added, dim=1), torch.cat(given)


def test_norms_and_patches_of_all_batches_are_added_once(tmp_path):
    parts = [[0, 1, 2], [3, 4], [5, 6]]
    apart, patches = norms_and_tokens(looking(tmp_path), parts)
    whole, all_patches = norms_and_tokens(looking(tmp_path), [list(range(7))])
    assert apart.shape == whole.shape and patches.shape == (7 * 4, looking(tmp_path).net.config.width)
    torch.testing.assert_close(apart, whole, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(patches, all_patches, atol=1e-4, rtol=1e-4)


def test_points_of_a_map_are_some_of_all_images_and_keep_their_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_POINTS", 3)
    made = looking(tmp_path)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    with torch.no_grad():
        for part in (slice(0, 4), slice(4, 7)):
            made.predict_step((IMAGES[part], labels[part]), 0)
        features = made.net.features(made.model.normalise(IMAGES))
    places = _drawn(7, 3).tolist()
    assert made.sums.labels == labels[places].tolist()
    torch.testing.assert_close(torch.stack(made.sums.features), features[places], atol=1e-5, rtol=1e-4)


def test_maps_of_an_image_are_its_own_in_every_batch(tmp_path):
    alone, together = looking(tmp_path / "a", layers=(0, -1)), looking(tmp_path / "b", layers=(0, -1))
    labels = torch.tensor([0, 1, 2, BROKEN, -1, 1, 0])
    for made, parts in ((alone, [[number] for number in range(7)]), (together, [list(range(7))])):
        made.folder.mkdir()
        with torch.no_grad():
            for part in parts:
                made.predict_step((IMAGES[part], labels[part]), 0)
    for one, other in zip(alone.sums.drawn, together.sums.drawn, strict=True):
        first, second = np.load(one), np.load(other)
        assert one.name == other.name and set(first.files) == set(second.files)
        assert {"rollout", "norms", "heads_0", "heads_1", "gradient_free_relevance"} < set(first.files)
        for name in first.files:
            np.testing.assert_allclose(first[name], second[name], atol=1e-4, err_msg=f"{name} of {one.name}")
    rollouts = [np.load(path)["rollout"] for path in together.sums.drawn]
    assert len(rollouts) == len(READ) and not np.allclose(rollouts[0], rollouts[1], atol=1e-6)


def test_rows_of_labels_are_broken_as_a_whole_or_of_no_class(tmp_path):
    made = looking(tmp_path, loss="sigmoid", asked=("embedding",))
    several = torch.tensor([[1.0, 0, 1], [BROKEN, BROKEN, BROKEN], [-1, -1, -1]])
    with torch.no_grad():
        assert made.predict_step((IMAGES[:3], several), 0) == 3
    assert (made.sums.count, made.sums.labels, made.came) == (2, [-1, -1], 3)


def test_names_of_classes_are_those_of_the_head_first():
    made = SimpleNamespace(model=SimpleNamespace(head_names=("x",), class_names=["y"]))
    assert module.Looking.class_names.fget(made) == ["x"]
    made.model.head_names = ()
    assert module.Looking.class_names.fget(made) == ["y"]
    assert module.Looking.class_names.fget(SimpleNamespace(model=SimpleNamespace())) == []
