"""Maps over photographs, read from what is drawn: which map stands where, and on which scale."""

import numpy as np
import pytest
import torch

from vit_lightning.inspection.drawing import photographs, style
from vit_lightning.inspection.drawing.photographs import Photograph, as_picture, stretched

SIZE = (24, 36)
"""Of two photographs, whose maps have 4 x 6 patches."""


def pair() -> list[Photograph]:
    shown = []
    for number in range(2):
        rng = np.random.default_rng(number)
        maps = {name: rng.random((4, 6)) for name in ("rollout", "norms", "norms_with_registers", "gradient_relevance")}
        maps |= {"gradient_free_relevance": rng.normal(size=(4, 6)), "pca": rng.random((4, 6, 3))}
        maps["heads_3"] = rng.random((12, 4, 6))
        shown.append(Photograph(f"{number}.jpg", rng.random((*SIZE, 3)), maps, f"class {number}"))
    return shown


def panels(figure) -> list:
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def drawn(axes, place: int = 0) -> np.ndarray:
    return np.asarray(axes.images[place].get_array())


def test_a_rollout_stands_between_its_image_and_the_image_times_it():
    shown = pair()
    axes = panels(photographs.rollouts(shown))
    assert [each.get_title() for each in axes] == ["0.jpg", "", "", "1.jpg", "", ""]
    for number, photograph in enumerate(shown):
        first, second, third = axes[3 * number : 3 * number + 3]
        seen = stretched(photograph.maps["rollout"], SIZE)
        np.testing.assert_array_equal(drawn(first), photograph.picture)
        np.testing.assert_allclose(drawn(second), seen)
        assert second.get_images()[0].get_clim() == (0, 1)  # one scale for all images
        np.testing.assert_allclose(drawn(third), photograph.picture * seen[..., None])
    grey = Photograph("g", shown[0].picture.mean(-1), shown[0].maps)
    through = drawn(panels(photographs.rollouts([grey]))[2])
    np.testing.assert_allclose(through, grey.picture * stretched(grey.maps["rollout"], SIZE))


def test_components_stand_beside_their_image_with_their_shares():
    shown = pair()
    figure = photographs.components(shown, [0.504, 0.2, 0.099])
    axes = panels(figure)
    assert "50 + 20 + 10 % of the variance" in figure._supxlabel.get_text()
    for number, photograph in enumerate(shown):
        np.testing.assert_array_equal(drawn(axes[2 * number]), photograph.picture)
        np.testing.assert_array_equal(drawn(axes[2 * number + 1]), photograph.maps["pca"])
        assert axes[2 * number + 1].images[0].get_extent() == [-0.5, 35.5, 23.5, -0.5]


def test_relevance_with_a_sign_is_scaled_by_each_image_s_own_greatest():
    shown = pair()
    axes = panels(photographs.relevances(shown))
    assert [each.get_title() for each in axes] == ["0.jpg", "class 0", "", "1.jpg", "class 1", ""]
    for number, photograph in enumerate(shown):
        first, second, third = axes[3 * number : 3 * number + 3]
        signed = photograph.maps["gradient_free_relevance"]
        np.testing.assert_array_equal(drawn(first), photograph.picture)
        np.testing.assert_allclose(drawn(second), signed / np.percentile(np.abs(signed), 97))
        assert second.images[0].get_clim() == (-1, 1)
        np.testing.assert_allclose(drawn(third), photograph.picture.mean(-1))
        np.testing.assert_allclose(drawn(third, 1), stretched(photograph.maps["gradient_relevance"], SIZE))


def test_heads_have_a_map_each_behind_their_mean():
    (photograph, _) = pair()
    figure = photographs.heads(photograph, 3, [1, 0, *range(4, 11)], "the class token")
    axes, found = panels(figure), photograph.maps["heads_3"]
    assert len(axes) == 18  # 11 panels, nine in a row
    maps = [found.mean(0), *(found[head] for head in (1, 0, *range(4, 11)))]
    for each, values in zip(axes[1:], maps, strict=False):
        np.testing.assert_allclose(drawn(each), values / values.max())
    assert [each.get_title() for each in axes[1:4]] == [
        "mean of all heads, up to …",
        f"head 1, up to {100 * found[1].max():.1f} %",
        f"head 0, up to {100 * found[0].max():.1f} %",
    ]
    assert not any(each.images for each in axes[11:])
    assert figure._suptitle.get_text() == "Attention of layer 3"
    assert figure._supxlabel.get_text() == "attention of the class token"


def test_norms_before_and_after_share_a_scale_of_twice_the_limit():
    shown = pair()
    axes = panels(photographs.remedies(shown, 0.4))
    for number, photograph in enumerate(shown):
        for each, name in zip(axes[3 * number + 1 : 3 * number + 3], ("norms", "norms_with_registers"), strict=True):
            np.testing.assert_array_equal(drawn(each), photograph.maps[name])
            assert each.images[0].get_clim() == (0, 0.8)


@pytest.mark.parametrize(("count", "kept", "hidden"), [(1, 3, 0), (2, 6, 0), (3, 9, 3), (4, 12, 0)])
def test_two_photographs_stand_in_a_row_and_what_is_empty_is_hidden(count, kept, hidden):
    axes = panels(photographs.remedies((pair() * 2)[:count], 1.0))
    assert [each.get_visible() for each in axes] == [True] * kept + [False] * hidden
    columns = axes[0].get_subplotspec().get_gridspec().ncols
    assert columns == 3 * min(count, 2)


def test_a_map_ends_at_three_per_cent_of_its_patches():
    """Of 101 patches from 0 to 100 those up to 3 are black, those from 97 on white."""
    values = np.arange(101.0)[None]
    blurred = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(photographs, "gaussian_blur", lambda image, *kernel: blurred.append(kernel) or image)
        found = stretched(values, (1, 101, 3))
    np.testing.assert_allclose(found[0], ((values.clip(3, 97) - 3) / 94)[0], atol=1e-6)
    assert blurred == [([3, 1], [0.5, 0.5])]  # along x, and along y, where there is one row


def test_the_blur_is_half_a_patch_wide_along_each_axis():
    sizes, deviations = photographs._kernel((4, 2), (24, 36))  # patches of 6 rows and 18 columns
    assert deviations == [9.0, 3.0] and sizes == [37, 13]  # x first, two deviations to each side
    assert photographs._kernel((1, 1), (4, 4)) == ([7, 7], [2.0, 2.0])  # mirrored once at most


def test_channels_of_a_picture_keep_their_order():
    bytes_ = torch.tensor([255, 51, 102, 0], dtype=torch.uint8)[:, None, None].expand(4, 1, 2)
    np.testing.assert_allclose(as_picture(bytes_)[0, 1], [1.0, 0.2, 0.4])
    many = torch.tensor([0.1, 0.2, 0.6, 0.3, 0.3])[:, None, None].expand(5, 1, 2)
    np.testing.assert_allclose(as_picture(many)[0], [0.3, 0.3])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b", "a b"),
        ("a\u00a0b", "a\u00a0b"),
        ("a\x1bb", r"a\x1bb"),
        ("a\u202eb", r"a\u202eb"),
        ("\udc80\udcff", r"\x80\xff"),
        ("n" * 200, "n" * 200),
        ("n" * 201, "n" * 199 + "…"),
    ],
)
def test_names_are_shown_as_they_are_where_that_is_safe(text, shown):
    assert style.printable(text) == shown
