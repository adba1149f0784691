"""Nets as programs for other run-times: ONNX and torch.export, with normalisation and class names inside."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import torch
from einops import rearrange
from torch import Tensor, nn

from vit_lightning.augment import Augment
from vit_lightning.errors import InputError
from vit_lightning.files import write_atomically
from vit_lightning.models import Net
from vit_lightning.weights.interface import INPUT, OUTPUT, interface_of
from vit_lightning.weights.report import Report
from vit_lightning.weights.save import parity

# Another order of the same sums; measured at 1e-6 and below.
TOLERANCE = 2e-5
BATCHES = (1, 3)
# ONNX files end at 2 GiB; above this, the tensors go into a file of their own.
LARGEST = 1_900_000_000


class Normalised(nn.Module):
    """A net that takes images in [0, 1] and normalises them itself.

    Args:
        net: the net.
        report: knows mean and std.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, net: Net, report: Report) -> None:
        super().__init__()
        self.net = net
        for name, values in zip(("mean", "std"), report.normalisation(net.config.channels), strict=True):
            self.register_buffer(name, rearrange(torch.tensor(values), "c -> c 1 1"))

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits of images `b c y x` in [0, 1]."""
        return self.net((images - self.mean) / self.std)


def to_onnx(net: Net, report: Report, path: Path, evaluation: Augment = Augment()) -> float:
    """Writes a folder with model.onnx, of dynamic batch, and checks it with onnxruntime.

    Args:
        net: the net.
        report: what is known besides; it goes into the file's metadata.
        path: folder to make.
        evaluation: how images are brought to size, for the same place.

    Returns:
        The largest relative difference of the outputs at batch 1 and 3.

    Raises:
        InputError: the extra is not installed, or the file computes something else.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 (torch's exporter needs it)
    except ImportError as error:
        raise InputError(f'Export to ONNX needs {error.name}: pip install "vit-lightning[onnx]".') from error
    model, batch = Normalised(net, report).eval(), torch.export.Dim("batch")
    example = torch.zeros(2, net.config.channels, *net.image_size)
    program = torch.onnx.export(
        model,
        (example,),
        dynamo=True,
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_shapes=({0: batch},),
        verbose=False,
    )
    assert program is not None  # torch gives none only without dynamo
    # In ASCII: a class folder's name may be no UTF-8, which ONNX alone takes.
    facts = {name: json.dumps(value) for name, value in interface_of(net, report, evaluation).items()}
    program.model.metadata_props.update(facts)
    path.mkdir()
    file = path / "model.onnx"
    program.save(file, external_data=sum(tensor.nbytes for tensor in model.state_dict().values()) > LARGEST)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return _checked(net, report, lambda images: torch.from_numpy(session.run([OUTPUT], {INPUT: images.numpy()})[0]))


def to_torch_export(net: Net, report: Report, path: Path, evaluation: Augment = Augment()) -> float:
    """Writes a folder with model.pt2, of dynamic batch, which torch.export.load opens without our code.

    Args:
        net: the net.
        report: what is known besides; it goes into the file's vit_lightning.json.
        path: folder to make.
        evaluation: how images are brought to size, for the same place.

    Returns:
        The largest relative difference of the outputs at batch 1 and 3.

    Raises:
        InputError: the file computes something else.
    """
    example = torch.zeros(2, net.config.channels, *net.image_size)
    batch = torch.export.Dim("batch")
    program = torch.export.export(Normalised(net, report).eval(), (example,), dynamic_shapes=({0: batch},))
    path.mkdir()
    facts = json.dumps(interface_of(net, report, evaluation))
    whole = io.BytesIO()  # where a file may grow no further, torch's own writer ends the process
    torch.export.save(program, whole, extra_files={"vit_lightning.json": facts})
    write_atomically(path / "model.pt2", whole.getvalue())
    return _checked(net, report, torch.export.load(path / "model.pt2").module())


def _checked(net: Net, report: Report, run: Callable[[Tensor], Tensor]) -> float:
    """The parity of a program, which normalises by itself, with its net."""
    mean, std = (rearrange(torch.tensor(values), "c -> c 1 1") for values in report.normalisation(net.config.channels))
    figure = max(parity(net, lambda images: run(images * std + mean), batch) for batch in BATCHES)
    if not figure <= TOLERANCE:
        raise InputError(f"The exported program differs from the net by {figure:.1e}, more than {TOLERANCE:.0e}.")
    return figure
