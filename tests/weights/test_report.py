"""The report as people read it."""

from vit_lightning.weights import Report


def test_table_groups_blocks_and_counts_the_rest():
    report = Report("w.npz", "Google's npz", loaded=["a", "b"])
    report.resampled = {"position.table": "14x14 -> 24x24 patches, bilinear"}
    report.missing = {"head.weight": "the head is reset", "head.bias": "the head is reset"}
    report.dropped = {f"opt/{i}/mu": "training state" for i in range(3)} | {f"x{i}": "training state" for i in range(4)}
    report.notes = ["224 pixels"]
    assert str(report).splitlines() == [
        "weights: w.npz (Google's npz)",
        "  loaded     2 tensors",
        "  resampled  position.table               14x14 -> 24x24 patches, bilinear",
        "  missing    head.weight, head.bias       the head is reset",
        "  dropped    opt/*/mu, x0, x1 and 2 more  training state",
        "  note       224 pixels",
    ]


def test_normalisation_is_the_weights_own_else_the_papers():
    assert Report("", "").normalisation(2) == ((0.5, 0.5), (0.5, 0.5))
    assert Report("", "", mean=(0.1,), std=(0.2,)).normalisation(1) == ((0.1,), (0.2,))
