"""What stands in a YAML file where it means nothing."""

import pytest
import yaml

from vit_lightning.cli.config_files import read_config
from vit_lightning.cli.config_shape import misplaced
from vit_lightning.errors import InputError

BESIDE = "batch_size stands beside the class_path Digits; indent it below init_args"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data:\n  class_path: Digits\n  batch_size: 8\n", f"in line 3 {BESIDE}"),
        ("data:\n  class_path: Digits\n  init_args:\n  batch_size: 8\n", f"in line 4 {BESIDE}"),
        (
            "trainer:\n  callbacks:\n  - class_path: Require\n    init_args:\n    metric: val/top1\n",
            "in line 5 metric stands beside the class_path Require; indent",
        ),
        (
            "model:\n  optim: {lr: 1e-3, weight_decay 0.1}\n",
            "in line 2 'weight_decay 0.1' has no colon; write weight_decay: 0.1",
        ),
        ("data: {class_path: Digits, dict_kwargs: {a: 1}, init_args: {batch_size: 8}}\n", None),
        ("data:\n  class_path: Manifest\n  init_args:\n    class_map: {old cat: cat, odd one: null}\n", None),
        ("model:\n  loss: sigmoid\n", None),
    ],
)
def test_a_key_that_means_nothing_is_named_with_its_line(tmp_path, text, said):
    found = misplaced(yaml.safe_load(text), text)
    assert found is None if said is None else str(found).startswith(said)
    (tmp_path / "x.yaml").write_text(text)
    if said is None:
        assert read_config(tmp_path / "x.yaml") == yaml.safe_load(text)
    else:
        with pytest.raises(InputError, match=r"^-c .*x\.yaml: in line"):
            read_config(tmp_path / "x.yaml")
