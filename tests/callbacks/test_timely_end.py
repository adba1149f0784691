"""What becomes of the workers and the exit status of a run that fails."""

from types import SimpleNamespace

import pytest
from lightning.pytorch.utilities.exceptions import SIGTERMException

from vit_lightning.callbacks import timely_end
from vit_lightning.callbacks.timely_end import TimelyEnd


@pytest.fixture
def ended(monkeypatch):
    def run(error: BaseException, program: bool = True, saves: bool = False) -> list[tuple]:
        met: list[tuple] = []
        monkeypatch.setattr(timely_end, "is_program", lambda: program)
        monkeypatch.setattr(timely_end, "end_children", lambda: met.append(("children",)))
        monkeypatch.setattr(timely_end, "end_in_time", lambda *words: met.append(words))
        callbacks = [SimpleNamespace(), SimpleNamespace(save_on_exception=saves)]
        TimelyEnd().on_exception(SimpleNamespace(checkpoint_callbacks=callbacks), None, error)
        return met

    return run


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (SystemExit(7), (7,)),
        (SystemExit("words"), (1,)),
        (KeyboardInterrupt(), (130,)),
        (ValueError("shapes\n  differ"), (1, "shapes differ")),
    ],
)
def test_workers_are_ended_and_the_status_is_that_of_the_error(ended, error, end):
    assert ended(error) == [("children",), end]


def test_a_sigterm_has_the_status_that_lightning_gives_it(ended):
    error = SIGTERMException(0)
    error.code = 143
    assert ended(error) == [("children",), (143,)]


def test_a_state_that_is_to_be_saved_has_its_time(ended):
    assert ended(ValueError("x"), saves=True) == [("children",)]


def test_inside_another_program_nothing_is_ended(ended):
    assert ended(ValueError("x"), program=False) == []
