"""From the sums and files of the pass over the images to figures, one function for each."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vit_lightning.commands.inspect.choices import REPLACEMENTS, FigureName, hindrances
from vit_lightning.commands.inspect.looking import Looking
from vit_lightning.commands.inspect.results import Results, file_stem
from vit_lightning.errors import InputError
from vit_lightning.inspection.ablation import ablate_heads, ablate_tokens
from vit_lightning.inspection.artefacts import LEVELS
from vit_lightning.inspection.attention import patch_distances, pixels_per_patch, reads_of
from vit_lightning.inspection.drawing import charts, photographs
from vit_lightning.inspection.drawing.photographs import Photograph, as_picture
from vit_lightning.inspection.embeddings import embed
from vit_lightning.inspection.features import Components, colour_maps
from vit_lightning.inspection.filters import filters_of, principal_filters
from vit_lightning.inspection.observation import observe
from vit_lightning.inspection.position import positions_of, similarity
from vit_lightning.inspection.test_time_registers import register_neurons, with_test_time_registers
from vit_lightning.terminal import counted, progress, report

PAGE = 16
"""Images on one sheet."""
BATCH = 8


class Pictures:
    """Figures of a net that was looked into.

    Args:
        looking: the pass, which is over.
        results: where figures go.
        resampled: how the position embeddings came to their grid, in words; empty: they were trained with it.
    """

    def __init__(self, looking: Looking, results: Results, resampled: str = "") -> None:
        self.looking, self.results, self.resampled = looking, results, resampled
        self.net, self.sums, self.choices = looking.net, looking.sums, looking.choices
        self.left_out = hindrances(self.net, self.sums.count)
        self.numbers: dict[str, Any] = {}
        """What inspection.json holds."""
        self.components: Components | None = None

    def draw(self) -> None:
        """Draw all that is wanted, sheets of images last: the components of their features are found before."""
        makers: dict[FigureName, Callable[[], None]] = {
            "distance": self._distance,
            "position": self._position,
            "filters": self._filters,
            "pca": self._pca,
            "artefacts": self._artefacts,
            "embedding": self._embedding,
            "ablation": self._ablation,
        }
        for name in self.choices.figures:
            if name in self.left_out:
                report(f"left out {name}: {self.left_out[name]}")
            elif name in makers:
                makers[name]()
        self._sheets()

    # Over all images -------------------------------------------------------------------------------------------------

    def _distance(self) -> None:
        assert self.sums.distance is not None
        found, grid, patch = self.sums.distance / self.sums.count, self.net.grid, pixels_per_patch(self.net.config)
        uniform = float(patch_distances(grid, patch).mean())
        shown = f"how far heads look, {found.min():.0f} to {found.max():.0f} px; uniform attention {uniform:.1f} px"
        self.results.figure(
            "distance",
            charts.distances(found, uniform, self.sums.count),
            shown,
            {"distance": found, "uniform": uniform},
        )
        self.numbers["mean_distance"] = {"pixels": found.tolist(), "uniform": uniform, "patch": patch}

    def _position(self) -> None:
        found = positions_of(self.net)
        assert found.vectors is not None
        said = found.said + (f"; {self.resampled}" if self.resampled else "")
        alike = similarity(found.vectors, self.net.grid)
        self.results.figure("position", charts.positions(alike, said), said, {"similarity": alike.float()})
        self.numbers["position"] = said

    def _filters(self) -> None:
        tiles, shares = principal_filters(filters_of(self.net))
        of = "the first layer of the stem" if self.net.config.stages else "the patch embedding"
        said = f"{len(tiles)} components of {of}, {100 * float(shares.sum()):.0f} % of the variance"
        arrays = {"tiles": tiles.float(), "shares": shares}
        self.results.figure("filters", charts.filters(tiles, shares, said), said, arrays)

    def _pca(self) -> None:
        self.components = self.sums.pca.result(3)
        mean, axes, variances, shares = self.components
        self.results.arrays("pca", {"mean": mean, "axes": axes, "variances": variances, "shares": shares})
        self.numbers["pca_shares"] = shares.tolist()

    def _artefacts(self) -> None:
        found = self.sums.norms.report()
        said = f"{100 * found.share:.3g} % of the patches have more than twice the median norm"
        arrays = {"quantiles": found.quantiles, "levels": LEVELS, "shares": found.shares}
        self.results.figure("artefacts", charts.norms(found, self.sums.count), said, arrays)
        self.numbers["artefacts"] = {
            "share": found.share,
            "threshold": found.threshold,
            "largest_over_median": found.largest,
            "emerge_at_block": found.emerges_at,
        }
        if found.emerges_at is not None:
            self._remedy(found.threshold, found.emerges_at)

    def _remedy(self, threshold: float, emerges_at: int) -> None:
        """Draw what test-time registers do to the artefacts of the images that are drawn."""
        chosen = [path for path in self.sums.drawn if (_read(path)["norms"] > threshold).any()][:PAGE]
        if not chosen:
            report("left out test-time registers: none of the drawn images has an artefact; raise --maps")
            return
        try:
            neurons = register_neurons(self.net, self._batches(chosen), threshold, emerges_at)
            mended = with_test_time_registers(self.net, neurons)
        except InputError as error:
            report(f"left out test-time registers: {error}")
            return
        after = torch.cat([observe(mended, batch).norms[-1].cpu() for batch in self._batches(chosen)])
        shown = [self._photograph(path, ("norms",)) for path in chosen]
        for photograph, norms in zip(shown, after, strict=True):
            photograph.maps = {**photograph.maps, "norms_with_registers": norms.unflatten(0, self.net.grid).numpy()}
        before = float(np.mean([photograph.maps["norms"] > threshold for photograph in shown]))
        share = float((after > threshold).float().mean())
        said = f"test-time registers: {100 * before:.3g} % artefacts become {100 * share:.3g} % in these images"
        self.results.figure("artefacts_remedy", photographs.remedies(shown, threshold), said, {"neurons": neurons})
        self.numbers["test_time_registers"] = {
            "neurons": [[neuron.layer, neuron.number] for neuron in neurons],
            "share_before": before,
            "share_after": share,
        }

    def _embedding(self) -> None:
        features = torch.stack(self.sums.features).numpy()
        labels, names = np.array(self.sums.labels), list(self.looking.inspected.data.class_names)
        classes = len(np.unique(labels[labels >= 0]))
        if classes == 1:
            report("embedding all images are of one class, so that the colours of the map tell nothing")
        for method in self.choices.methods:
            places = embed(features, method)
            of = f" of {classes} class{'es' * (classes > 1)}" if classes else ""
            said = f"{counted(len(places), 'image', grouped=True)}{of}, near where their features are alike"
            figure = charts.embedding(places, method, labels, names)
            self.results.figure(f"embedding_{method}", figure, said, {"places": places, "labels": labels})

    def _ablation(self) -> None:
        count, device = len(self.sums.kept), self.looking.model.mean.device
        order = np.random.default_rng(0).permutation(count)  # neighbours in a set are often of one class
        seen = self.looking.model.normalise(torch.stack([self.sums.kept[place] for place in order]).to(device))
        heads = {by: self._lost(ablate_heads, "heads", by, seen) for by in REPLACEMENTS}
        tokens = {by: self._lost(ablate_tokens, "tokens", by, seen) for by in REPLACEMENTS}
        arrays = {by: lost.features for by, lost in heads.items()}
        arrays |= {f"{by}_changed": lost.changed for by, lost in heads.items() if lost.changed is not None}
        layer, head = divmod(int(heads["mean"].features.argmax()), self.net.config.heads)
        said = f"by head, on {count} images: most of all layer {layer}, head {head}"
        self.results.figure("ablation_heads", charts.lost_heads(heads, count), said, arrays)
        lines = {f"{by}_{name}": lost.features for by, groups in tokens.items() for name, lost in groups.items()}
        self.results.figure(
            "ablation_tokens", charts.lost_tokens(tokens, count), f"by kind of token, on {count} images", lines
        )
        self.numbers["lost_without_head"] = {by: lost.features.tolist() for by, lost in heads.items()}
        self.numbers["lost_without_tokens"] = {name: values.tolist() for name, values in lines.items()}

    def _lost(self, ablate: Callable[..., Any], what: str, by: str, seen: Tensor) -> Any:
        with progress("ablation", f"replaced {what} ({by}) in", len(seen)) as advance:
            return ablate(self.net, seen, by, BATCH, advance)

    # Image by image --------------------------------------------------------------------------------------------------

    def _sheets(self) -> None:
        """Draw sheets, a page of images at a time, and write the arrays of each image."""
        figures = [name for name in self.choices.figures if name not in self.left_out]
        pages = [self.sums.drawn[start : start + PAGE] for start in range(0, len(self.sums.drawn), PAGE)]
        drawn, total = counted(len(self.sums.drawn), "image"), counted(self.sums.count, "image", grouped=True)
        for number, page in enumerate(pages):
            shown = [self._photograph(path) for path in page]
            ending = f"_{number + 1}" if number else ""
            if "rollout" in figures:
                said = f"where the attention of all layers leads, {drawn}"
                self.results.figure(f"rollout{ending}", photographs.rollouts(shown), said)
            if "pca" in figures and self.components is not None:
                said = f"components of the patches of {total}, as colours"
                self.results.figure(
                    f"pca_maps{ending}", photographs.components(shown, self.components.shares.tolist()), said
                )
            if "relevance" in figures:
                word = self.choices.relevance_class
                said = f"patches that speak for {word or 'the best class'}"
                self.results.figure(f"relevance{ending}", photographs.relevances(shown), said)
            for path, photograph in zip(page, shown, strict=True):
                self._single(path, photograph, "heads" in figures)
        if "heads" in figures:
            self.results.listed("heads", f"attention of single heads, a figure for each of {drawn}")
        self.results.listed("images", f"maps of {drawn}, as arrays in a .npz each")

    def _single(self, path: Path, photograph: Photograph, with_heads: bool) -> None:
        """Write the arrays of an image, and the maps of its heads."""
        held = _read(path)
        stem = file_stem(int(held["place"]), photograph.name)
        arrays = {name: held[name] for name in ("label", "best", "class", "probability") if name in held}
        arrays |= {"name": np.array(photograph.name), "image": photograph.picture, **photograph.maps}
        self.results.arrays(f"images/{stem}", arrays)
        if with_heads:
            row = "the class token" if reads_of(self.net.config) == "token" else "the patches, their mean"
            for layer in self.looking.layers:
                figure = photographs.heads(photograph, layer, self.looking.heads, row)
                self.results.single(f"heads/{stem}_layer{layer}", figure)

    def _photograph(self, path: Path, names: Sequence[str] = ()) -> Photograph:
        """Return an image that is drawn, with its maps."""
        held = _read(path)
        skipped = ("image", "tokens", "label", "place", "best", "class", "probability")
        maps = {name: values for name, values in held.items() if name not in skipped and (not names or name in names)}
        if self.components is not None and not names:
            maps["pca"] = colour_maps(
                torch.from_numpy(held["tokens"])[None, self.net.num_prefix_tokens :], self.components, self.net.grid
            )[0].numpy()
        return Photograph(
            Path(self.looking.inspected.names[int(held["place"])]).name,
            as_picture(torch.from_numpy(held["image"])),
            maps,
            self._said(held),
        )

    def _said(self, held: dict[str, np.ndarray]) -> str:
        if "class" not in held:
            return ""
        number, names = int(held["class"]), self.looking.class_names
        name = names[number] if number < len(names) else str(number)
        return f"{name} {100 * float(held['probability']):.0f} %"

    def _batches(self, paths: Sequence[Path]) -> Iterator[Tensor]:
        """Yield normalised images of files."""
        model = self.looking.model
        for start in range(0, len(paths), BATCH):
            images = [torch.from_numpy(_read(path)["image"]) for path in paths[start : start + BATCH]]
            yield model.normalise(torch.stack(images).to(model.mean.device))


def _read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as held:
        return dict(held)
