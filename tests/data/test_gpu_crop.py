"""The kernel that cuts a batch against torch, in Triton's interpreter where there is no GPU."""

import pytest
import torch

from tests.interpreted import interpret
from vit_lightning.augment import Augment
from vit_lightning.augment.per_image import RandomCut
from vit_lightning.seeds import seeded

SIDES = ((1, 1), (1, 30), (30, 1), (16, 24), (40, 50), (33, 90), (100, 70))


def compare(device: str) -> None:
    """All crops of images of any size are torch's in fp32, rounded once; the batch's other images stay as they are."""
    from vit_lightning.data.gpu_crop import cut

    generator = torch.Generator().manual_seed(0)
    images = [torch.randint(0, 256, (3, *sides), dtype=torch.uint8, generator=generator) for sides in SIDES]
    places = torch.tensor([8, 0, 1, 2, 3, 4, 5])
    for crop in ("inception", "resmall", "resize", "pad", "none"):
        crop = RandomCut(Augment(crop=crop), (16, 24))
        for seed in range(3):
            with seeded(seed):
                cuts = [crop.draw(*sides) for sides in SIDES]
            batch = torch.full((9, 3, *crop.size), 7, dtype=torch.uint8, device=device)
            numbers = torch.tensor([[int(field) for field in one] for one in cuts])
            cut([image.to(device) for image in images], numbers, places, batch, crop.antialias)
            found = batch.cpu()
            assert (found[[6, 7]] == 7).all()
            exact = torch.stack([crop.apply(*pair) for pair in zip(map(torch.Tensor.float, images), cuts, strict=True)])
            assert (found[places] - exact).abs().max() < 0.501
            hosts = torch.stack([crop.apply(*pair) for pair in zip(images, cuts, strict=True)])
            assert (found[places].int() - hosts.int()).abs().max() <= 1 + crop.antialias


@pytest.mark.gpu
def test_the_kernel_is_torch_on_a_gpu() -> None:
    compare("cuda")


def test_the_kernel_is_torch_in_the_interpreter() -> None:
    interpret("from tests.data.test_gpu_crop import compare; compare('cpu')")
