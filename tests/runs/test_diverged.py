"""What is advised of a run that diverged before it had a checkpoint."""

import pytest

from vit_lightning.errors import InputError
from vit_lightning.runs import folders


@pytest.mark.parametrize("diverged", [True, False])
def test_a_run_that_diverged_is_not_to_begin_anew_at_the_same_rate(tmp_path, diverged):
    (tmp_path / "config.yaml").touch()
    if diverged:
        (tmp_path / folders.NONFINITE).touch()
    with pytest.raises(InputError) as told:
        folders.trained_checkpoint(tmp_path)
    assert f"begin anew with fit -c {tmp_path / 'config.yaml'}" in str(told.value)
    assert str(told.value).endswith(" and a lower --model.optim.lr, since it diverged") == diverged
