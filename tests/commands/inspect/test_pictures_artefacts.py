"""Artefacts and their remedy, filters and positions, from the sums of a pass to figures."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.commands.inspect.test_looking import IMAGES, READ
from tests.commands.inspect.test_pictures import drawn  # noqa: F401
from vit_lightning.commands.inspect import pictures as module
from vit_lightning.inspection.artefacts import LEVELS, NormReport
from vit_lightning.inspection.test_time_registers import Neuron


@pytest.fixture
def said(monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(module, "report", lines.append)
    return lines


@pytest.fixture
def reported(drawn, monkeypatch):  # noqa: F811
    """Draw artefacts of a pass whose norms have this report."""

    def run(threshold: float, share: float, shares: list[float]):
        found = NormReport(torch.rand(2, len(LEVELS)), threshold, share, torch.tensor(shares), 3.5)
        monkeypatch.setattr("vit_lightning.inspection.artefacts.NormHistogram.report", lambda self: found)
        return found, *drawn("artefacts")

    return run


def test_a_net_without_artefacts_gets_no_remedy(reported, said):
    found, _, kept, pictures = reported(1e9, 0.0, [0.0, 0.0])
    (_, (shown, count)), words, arrays = kept.figures["artefacts"]
    assert shown is found and count == 6 and words == "0 % of the patches have more than twice the median norm"
    assert arrays == {"quantiles": found.quantiles, "levels": LEVELS, "shares": found.shares}
    assert pictures.numbers["artefacts"] == {
        "share": 0.0,
        "threshold": 1e9,
        "largest_over_median": 3.5,
        "emerge_at_block": None,
    }
    assert list(kept.figures) == ["artefacts"] and said == []


def test_artefacts_of_images_that_are_not_drawn_have_no_remedy_and_that_is_said(reported, said):
    _, _, kept, pictures = reported(1e9, 0.0125, [0.0, 0.0125])
    assert kept.figures["artefacts"][1] == "1.25 % of the patches have more than twice the median norm"
    assert pictures.numbers["artefacts"]["emerge_at_block"] == 1
    assert said == ["left out test-time registers: none of the drawn images has an artefact; raise --maps"]


def test_the_remedy_is_of_the_drawn_images_that_have_artefacts(reported, said, drawn, monkeypatch):  # noqa: F811
    """Of six images those whose largest norm is above the third one's; neurons up to the block where it begins."""
    made, *_ = drawn("rollout")
    norms = np.stack([module._read(path)["norms"] for path in made.sums.drawn])
    largest = norms.reshape(6, -1).max(1)
    threshold = float(np.sort(largest)[2:4].mean())
    chosen = [place for place in range(6) if largest[place] > threshold]
    asked, pixels = [], made.model.normalise(IMAGES[READ][chosen])

    def neurons(net, batches, limit, emerges_at):
        asked.append((torch.cat(list(batches)), limit, emerges_at))
        return [Neuron(0, 5), Neuron(1, 7)]

    def observed(net, batch):
        assert net == "mended"
        after = torch.full((2, len(batch), 4), threshold * 2)
        after[-1, :, 1:] = threshold / 2  # one patch of four is left
        return SimpleNamespace(norms=after)

    monkeypatch.setattr(module, "register_neurons", neurons)
    monkeypatch.setattr(module, "with_test_time_registers", lambda net, found: "mended")
    monkeypatch.setattr(module, "observe", observed)
    _, _, kept, pictures = reported(threshold, 0.5, [0.5, 0.5])
    ((given, limit, emerges_at),) = asked
    torch.testing.assert_close(given, pixels)
    assert (limit, emerges_at) == (threshold, 0)
    (_, (shown, drawn_limit)), words, arrays = kept.figures["artefacts_remedy"]
    assert drawn_limit == threshold and [each.name for each in shown] == [f"{READ[place]}.png" for place in chosen]
    for photograph, place in zip(shown, chosen, strict=True):
        np.testing.assert_array_equal(photograph.maps["norms"], norms[place])
        assert photograph.maps["norms_with_registers"].shape == (2, 2)
        assert (photograph.maps["norms_with_registers"] > threshold).tolist() == [[True, False], [False, False]]
    before = float((norms[chosen] > threshold).mean())
    assert pictures.numbers["test_time_registers"] == {
        "neurons": [[0, 5], [1, 7]],
        "share_before": pytest.approx(before),
        "share_after": 0.25,
    }
    assert words == f"test-time registers: {100 * before:.3g} % artefacts become 25 % in these images"
    assert arrays == {"neurons": [Neuron(0, 5), Neuron(1, 7)]} and said == []


def test_what_a_remedy_cannot_do_is_said(reported, said, monkeypatch):
    def refuse(*words):
        raise module.InputError("no place for registers")

    monkeypatch.setattr(module, "register_neurons", refuse)
    _, _, kept, pictures = reported(1e-6, 1.0, [1.0, 1.0])
    assert said == ["left out test-time registers: no place for registers"]
    assert list(kept.figures) == ["artefacts"] and "test_time_registers" not in pictures.numbers


def test_at_most_a_page_of_images_is_mended(reported, said, monkeypatch):
    seen: list[int] = []
    monkeypatch.setattr(module, "PAGE", 2)
    monkeypatch.setattr(module, "register_neurons", lambda net, batches, *words: seen.extend(map(len, batches)) or [])
    monkeypatch.setattr(module, "observe", lambda net, batch: SimpleNamespace(norms=torch.zeros(1, len(batch), 4)))
    _, _, kept, pictures = reported(1e-6, 1.0, [1.0, 1.0])
    assert seen == [2] and len(kept.figures["artefacts_remedy"][0][1][0]) == 2
    assert pictures.numbers["test_time_registers"]["share_before"] == 1.0
    assert pictures.numbers["test_time_registers"]["share_after"] == 0.0


def test_filters_and_positions_say_what_they_are(drawn):  # noqa: F811
    made, kept, pictures = drawn("position", "filters")
    (_, (alike, said)), text, arrays = kept.figures["position"]
    assert said == text == pictures.numbers["position"] == "learned, a vector for each place; resampled"
    vectors = made.net.position.table[0, 1:].detach()
    expected = torch.cosine_similarity(vectors[:, None], vectors[None], dim=-1).reshape(2, 2, 2, 2)
    torch.testing.assert_close(alike.float(), expected, atol=1e-5, rtol=1e-4)
    assert arrays["similarity"].dtype == torch.float32
    (_, (tiles, shares, said)), text, arrays = kept.figures["filters"]
    assert tiles.shape == (28, 4, 4, 3) and said == text
    assert text == f"28 components of the patch embedding, {100 * float(shares.sum()):.0f} % of the variance"
    torch.testing.assert_close(arrays["tiles"], tiles.float())
    torch.testing.assert_close(arrays["shares"], shares)
