"""Fixtures shared by all tests: where the real-data kit and the reference outputs lie."""

import os
from pathlib import Path

import pytest

KIT = "VIT_LIGHTNING_KIT"


@pytest.fixture(scope="session")
def kit() -> Path:
    """Folder of real images and weights, named by the environment variable VIT_LIGHTNING_KIT."""
    if KIT not in os.environ:
        pytest.skip(f"set {KIT} to the folder of the real-data kit")
    return Path(os.environ[KIT]).resolve()


@pytest.fixture(scope="session")
def golden(kit: Path) -> Path:
    """Folder of reference outputs of the original implementations, beside the kit."""
    return kit.parent / "golden"
