"""Values that the parser lets through are refused in one sentence; null stands where a flag may be null."""

import pytest
import yaml

from vit_lightning.cli.arguments import CommandLine
from vit_lightning.cli.checked_values import spell_nulls


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "Clasifier"), "no such model; did you mean Classifier? (known: Classifier, MaskedPatch)"),
        (("--model", "no_such.X"), "--model no_such.X: there is no module no_such"),
        (("--model", "torch.nn.Linear"), "--model torch.nn.Linear: that is no LightningModule"),
        (("--seed_everything", "-1"), "--seed_everything -1 must lie between 0 and 4294967295; true draws one"),
        (("--seed_everything", str(2**32)), "4294967296 must lie between"),
        (("--model.loss", "null"), "--model.loss null: it needs a value; --model.help Classifier says which"),
        (("--data.batch_size", "null"), "--data.batch_size null: it needs a value; --data.help Digits says which"),
        (("--trainer.gradient_clip_val", -1), "--trainer.gradient_clip_val is -1, expected 0 or more"),
        (("--trainer.check_val_every_n_epoch", 0), "--trainer.check_val_every_n_epoch is 0, expected 1 or more"),
        (("--trainer.val_check_interval", 0), "--trainer.val_check_interval is 0, expected more than 0"),
        (("--trainer.limit_train_batches", 0), "--trainer.limit_train_batches is 0, expected more than 0"),
        (("--trainer.log_every_n_steps", -1), "--trainer.log_every_n_steps is -1, expected 0 or more"),
        (("--model.optim.lr", "null"), "--model.optim.lr null: expected a number, such as 0.5"),
    ],
)
def test_wrong_words_get_one_sentence(app, words, said):
    done = app("fit", *words)
    assert done.code == 1 and said in done.err and len(done.err.splitlines()) == 1


def test_null_is_typed_as_a_mapping_where_a_flag_may_have_no_value():
    typed = ["fit", "--model.net.width", "null", "--model.net.pool=null", "--model.net.heads", "3", "--model.optim.lr"]
    line = CommandLine([*typed, "null", "--model.net.patch"])
    spell_nulls(line)
    assert line.words() == [
        *("fit", "--model.net={width: null}", "--model.net={pool: null}", "--model.net.heads=3"),
        *("--model.optim.lr=null", "--model.net.patch"),
    ]


def test_null_leaves_a_field_of_a_file_out(app, tmp_path):
    (tmp_path / "net.yaml").write_text(
        "model:\n  net: {variant: mu/8, position: sincos_2d, position_temperature: 30}\n"
    )
    words = ("--model.net.position", "learned", "--model.net.position_temperature")
    done = app("fit", "-c", tmp_path / "net.yaml", *words, "null", "--print_config")
    assert done.code == 0, done.err
    net = yaml.safe_load(done.out)["model"]["init_args"]["net"]
    assert (net["variant"], net["position"], net["position_temperature"]) == ("mu/8", "learned", None)
    assert "expected a number" in app("fit", *words[2:], "nul").err


def test_a_run_may_log_nothing_between_epochs(app):
    net = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.limit_train_batches", 2)
    done = app("fit", *net, "--trainer.max_epochs", 1, "--trainer.log_every_n_steps", 0)
    assert done.code == 0 and "epoch 1/1 done" in done.out, done.err
