"""What the scores of a split need of its images, kept over its batches and put together over processes."""

import torch
from einops import rearrange
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors

from vit_lightning.evaluation.calibration import BINS

MOST_RANKED = 2**27
"""Images times classes of which every score is kept for a ranking, over all processes: 0.7 GB of each one's memory."""
PARTS_OF_ONE = 2**24
"""Parts in which probabilities are summed: sums of whole numbers are the same in any order, on any device."""
BLOCKS = 16
"""Parts in which scores travel between processes."""


class Answers(Metric):
    """Of each image of one label: its class, the class predicted, and the net's confidence in that.

    12 bytes an image, on its device, hold what every score by class and the confusion matrix need, exactly and
    whatever the number of classes and processes.
    """

    full_state_update = False
    higher_is_better = None
    pairs: list[Tensor]
    confidence: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.classes = 0
        self.add_state("pairs", [], dist_reduce_fx="cat")
        self.add_state("confidence", [], dist_reduce_fx="cat")

    def update(self, labels: Tensor, predicted: Tensor, confidence: Tensor, valid: Tensor, classes: int) -> None:
        """Keep images; one that is not valid `(b,)` counts nothing."""
        self.classes = classes
        self.pairs.append(torch.where(valid, labels * classes + predicted, -1))
        self.confidence.append(confidence.float())

    def compute(self) -> tuple[Tensor, Tensor]:
        """Return pairs and confidences of the images of all processes; the pair of one that is not valid is -1."""
        pairs, confidence = (torch.cat(_listed(state)) for state in (self.pairs, self.confidence))
        return pairs, confidence


class LabelCounts(Metric):
    """Of images of several labels, each predicted where its probability is above a threshold: sums by class.

    The sums of its probability in each bin are those of its calibration.
    """

    full_state_update = False
    higher_is_better = None
    counts: Tensor
    exact: Tensor
    images: Tensor
    gaps: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("counts", "exact", "images", "gaps"):
            self.add_state(name, torch.tensor(0), dist_reduce_fx="sum")

    def update(self, probabilities: Tensor, threshold: float, labels: Tensor, valid: Tensor) -> None:
        """Add images with probabilities and true labels `(b, classes)`; one not valid `(b,)` counts nothing."""
        predicted, labels = (probabilities > threshold) & valid[:, None], labels & valid[:, None]
        # Not in place: a test leaves inference tensors behind, which a later validation of a fit may not change.
        self.counts = self.counts + torch.stack([each.sum(0) for each in (predicted & labels, labels, predicted)])
        self.exact = self.exact + ((predicted == labels).all(1) & valid).sum()
        self.images = self.images + valid.sum()
        self.gaps = self.gaps + _gaps(probabilities, labels, valid)

    def compute(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return sums over images.

        Returns:
            Right, true and predicted labels `(3, classes)`; images whose labels are all right; images; and of the
            images in each bin of a label's probability, those that have it less the sum of the probability, in
            `PARTS_OF_ONE` `(bins, classes)`.
        """
        return self.counts, self.exact, self.images, self.gaps


def _gaps(probabilities: Tensor, labels: Tensor, valid: Tensor) -> Tensor:
    """Return labels less probabilities, summed by bin of the probability; a bin holds its upper edge."""
    edges = torch.linspace(0, 1, BINS + 1, device=probabilities.device)[1:-1]
    known = probabilities.float().nan_to_num()  # of what is not finite the loss tells
    parts = labels.long() * PARTS_OF_ONE - (known * PARTS_OF_ONE).round().long()
    parts = parts * valid[:, None]
    zeros = torch.zeros(BINS, parts.shape[1], dtype=torch.long, device=parts.device)
    return zeros.scatter_add(0, torch.bucketize(known, edges), parts)


class RankedLabels(Metric):
    """Of images: the score of every class, in the host's memory, since an exact ranking needs all at once."""

    full_state_update = False
    higher_is_better = None
    scores: list[Tensor]
    labels: list[Tensor]

    def __init__(self) -> None:
        super().__init__(sync_on_compute=False)  # the states lie where the processes' devices do not reach
        self.add_state("scores", [], dist_reduce_fx=None)
        self.add_state("labels", [], dist_reduce_fx=None)
        self.seen = 0

    def update(self, scores: Tensor, labels: Tensor, valid: Tensor) -> None:
        """Keep scores and labels `(b, classes)` of the valid images, up to a limit."""
        self.seen += scores.numel() * _processes()
        if self.seen > MOST_RANKED:
            self.scores, self.labels = [], []
            return
        kept = valid.cpu()
        self.scores.append(scores.float().cpu()[kept])
        self.labels.append(labels.byte().cpu()[kept])

    def compute(self) -> tuple[Tensor, Tensor] | None:
        """Return scores and labels of all processes; None if they are too many."""
        is_left_out = torch.tensor(int(self.seen > MOST_RANKED), device=self.device)
        if any(map(bool, _gathered(is_left_out))):
            return None
        return self._whole(self.scores), self._whole(self.labels)

    def reset(self) -> None:
        super().reset()
        self.seen = 0

    def _whole(self, parts: list[Tensor]) -> Tensor:
        own = torch.cat(parts)
        blocks = own.tensor_split(min(own.shape[1], BLOCKS), dim=1)
        return torch.cat([torch.cat([part.cpu() for part in _gathered(block.to(self.device))]) for block in blocks], 1)


def _listed(state: list[Tensor] | Tensor) -> list[Tensor]:
    """Return a state as a list, which it is no more once processes have put it together."""
    return state if isinstance(state, list) else [state]


def in_order(gathered: Tensor) -> Tensor:
    """Return records `(n,)`, process by process, in the order of the data, which are dealt out in turns."""
    return rearrange(gathered.reshape(-1), "(r n) -> (n r)", r=_processes())


def _gathered(own: Tensor) -> list[Tensor]:
    """Return the tensors of all processes."""
    return gather_all_tensors(own) if _processes() > 1 else [own]


def _processes() -> int:
    known = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if known else 1
