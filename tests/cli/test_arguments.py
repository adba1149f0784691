"""The command line before it is parsed: odd files, the order of flags, short names, the help."""

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vit_lightning.cli.arguments import after_class, negative_values, read_config, without_values
from vit_lightning.errors import InputError

ODD = {
    "empty": (b"", "must hold a mapping such as `model: ...`, not nothing"),
    "scalar": (b"hello", "not str"),
    "list": (b"- 1", "not list"),
    "tab": (b"model:\n\toptim: 1\n", "not valid YAML in line 2: found character '\\t'"),
    "twice": (b"model:\n  loss: softmax\n  loss: sigmoid\n", "not valid YAML in line 3: 'loss' is written twice"),
    "latin": (b"model: \xe9", "is not UTF-8 text"),
    "zero": (b"a: \x00", "special characters are not allowed"),
    "date": (b"x: 2021-99-99", "month must be in 1..12"),
    "number": (b"1: 2", "has the key 1"),
    "python": (b"model: !!python/object:os.system {}", "could not determine a constructor"),
    "null": (b"model:\noptim: 1\n", "must hold a mapping below model, not nothing"),
    "model": (b"model: 5", "must hold a mapping below model, not int"),
    "data": (b"data: [1]", "must hold a mapping below data, not list"),
    "checkpoint": (b"checkpoint: 3", "below checkpoint, not int"),
    "trainer": (b"trainer: cpu", "--trainer cpu: expected keys and values below it"),
    "optim": (b"model: {optim: fast}", "--model.optim fast: expected keys and values below it"),
    "init_args": (b"model: {class_path: Classifier, init_args: [1]}", "expected keys and values below it"),
    "class_path": (b"model: {class_path: 3}", "expected a class, or a mapping of class_path and init_args"),
    "verb": (b"fit: {model: Classifier}", "has the key 'fit'; write model, data and trainer without it"),
    "seed": (b"seed_everything: -1", "--seed_everything -1 must lie between 0 and 4294967295"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_get_one_sentence(app, name):
    content, said = ODD[name]
    Path("odd.yaml").write_bytes(content)
    done = app("fit", "-c", "odd.yaml")
    assert done.code == 1 and said in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("flag", ["--model", "--data", "--trainer"])
def test_odd_files_of_one_part_get_one_sentence(app, flag):
    Path("odd.yaml").write_bytes(b"a: 1\na: 2\n")
    done = app("fit", flag, "odd.yaml")
    assert (done.code, done.err) == (1, f"error: {flag} odd.yaml is not valid YAML in line 2: 'a' is written twice\n")


@given(st.binary(max_size=60) | st.text(alphabet="-:[]{}&*!|>'\"#%@ \n\tab1", max_size=40).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(content)
    with suppress(InputError):
        assert isinstance(read_config(file), dict)


def test_merged_keys_may_be_overridden(tmp_path):
    file = tmp_path / "merged.yaml"
    file.write_text("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  x: 3\n")
    assert read_config(file)["b"] == {"x": 3, "y": 2}


@pytest.mark.parametrize("content", ["vit_lightning.masked_patch.MaskedPatch", "MaskedPatch"])
def test_a_model_may_be_a_plain_string(app, content):
    Path("plain.yaml").write_text(yaml.safe_dump({"model": content}))
    done = app("fit", "-c", "plain.yaml", "--print_config")
    assert done.code == 0, done.err
    assert yaml.safe_load(done.out)["model"]["class_path"] == "vit_lightning.masked_patch.MaskedPatch"


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


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        ("fit --data.root X --data A --data.y 1", "fit --data A --data.root X --data.y 1"),
        ("fit --data.root=X -c f --data.z -1 --data=A", "fit -c f --data=A --data.root=X --data.z -1"),
        ("fit --data.root X", "fit --data.root X"),
        ("fit --data A --data.x 1 --data B", "fit --data A --data.x 1 --data B"),
        ("fit --data.help A --data.flag --data B", "fit --data.help A --data B --data.flag"),
        ("fit --database 1 --data", "fit --database 1 --data"),
    ],
)
def test_flags_of_a_class_follow_it(words, moved):
    assert after_class(words.split(), "--data") == moved.split()


def test_flags_may_come_before_their_class(app):
    words = ("--data.root", "X", "--data.batch_size=7", "--model.target", "pixels", "--model", "MaskedPatch")
    done = app("fit", *words, "--data", "CIFAR10", "--print_config")
    assert done.code == 0, done.err
    config = yaml.safe_load(done.out)
    assert (config["data"]["init_args"]["root"], config["data"]["init_args"]["batch_size"]) == ("X", 7)
    assert config["model"]["init_args"]["target"] == "pixels"


def test_help_names_the_program_and_our_own_meaning_of_its_flags(app):
    out = app("fit", "--help").out
    assert out.startswith("usage: python -m vit_lightning fit [-c EXPERIMENT.yaml ...] [--flag value ...]\n")
    said = " ".join(out.split())
    for text in ("last or best of the newest run of this experiment", "Seed of all that is random, 0 to 4294967295"):
        assert text in said
    assert "__main__" not in out
    assert " --out VALUE" in app("prepare", "--help").out.splitlines()[0]


def test_null_is_typed_as_a_mapping_where_a_flag_may_have_no_value():
    typed = ["fit", "--model.net.width", "null", "--model.net.pool=null", "--model.net.heads", "3", "--model.optim.lr"]
    assert without_values([*typed, "null", "--model.net.patch"]) == [
        *("fit", "--model.net", "{width: null}", "--model.net", "{pool: null}", "--model.net.heads", "3"),
        *("--model.optim.lr", "null", "--model.net.patch"),
    ]


def test_negative_numbers_are_no_flags(app):
    typed = ["fit", "--model.optim.lr", "-1e-5", "--trainer.max_steps", "-1", "--seed_everything=-2", "-inf"]
    joined = ["fit", "--model.optim.lr=-1e-5", "--trainer.max_steps", "-1", "--seed_everything=-2", "-inf"]
    assert negative_values(typed) == joined
    done = app("fit", "--data", "Synthetic", "--model.optim.lr", "-1e5")
    assert done.code == 1 and "--model.optim.lr is -100000.0; it must not be negative" in done.err


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
