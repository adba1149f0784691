"""Garbage is looked for except while a run is built, and later not among what was built."""

import gc

import pytest

from vit_lightning.cli.garbage_collection import paused_until_built, resume_after_building


@pytest.fixture(autouse=True)
def as_before():
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_collected_while_a_run_is_built():
    with paused_until_built():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_built_is_left_aside_until_the_run_is_over():
    with paused_until_built():
        assert gc.get_freeze_count() == 0
        resume_after_building()
        assert gc.isenabled() and gc.get_freeze_count() > 1000
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_a_run_that_fails_leaves_the_collector_as_it_was():
    with pytest.raises(ZeroDivisionError), paused_until_built():
        1 / (resume_after_building() or 0)
    assert gc.isenabled() and gc.get_freeze_count() == 0
