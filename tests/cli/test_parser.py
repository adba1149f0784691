"""The parsers' own part: help without markup and without our inner classes, and errors as exceptions."""

import re

import pytest

from vit_lightning.cli.config_files import DATA_FACTS
from vit_lightning.cli.file_verb_parser import OFFERED, CompleteFormatter, FileVerbParser, without_markup
from vit_lightning.cli.help import OUR_SENTENCES
from vit_lightning.cli.parser import TITLES, chosen_parser
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("See :class:`~lightning.Trainer` of ``it``.", "See lightning.Trainer of it."),
        ("A `name` and :meth:`x.y`", "A name and x.y"),
        ("over ``two\nlines``", "over two\nlines"),
        ("no markup: `open", "no markup: `open"),
        ("``a `b` c``", "a `b` c"),
    ],
)
def test_sentences_lose_their_markup(text, plain):
    assert without_markup(text) == plain


@pytest.mark.parametrize(
    ("classes", "shown"),
    [
        (
            "lightning.X, vit_lightning.callbacks.Require, vit_lightning.callbacks.plan.RunPlan",
            "lightning.X, vit_lightning.callbacks.Require",
        ),
        ("vit_lightning.callbacks.plan.RunPlan, vit_lightning.x.Y", None),
        ("my.Own", "my.Own"),
    ],
)
def test_help_offers_others_classes_and_few_of_ours(classes, shown):
    parser = FileVerbParser(prog="x")
    action = parser.add_argument("--flag", help=f"A ``flag``. (type: C, known subclasses: {classes})")
    text = CompleteFormatter(prog="x")._get_help_string(action)
    listed = f", known subclasses: {shown}" if shown else ""
    assert text.startswith("A flag.") and f"(type: C{listed})" in text
    assert len(OFFERED) == 4 and all(name.startswith("vit_lightning.") for name in OFFERED)


def verb_parser() -> FileVerbParser:
    parser = FileVerbParser(prog="x")
    parser.add_argument("source", type=str, help="Where.")
    parser.add_argument("target", type=str)
    parser.add_argument("--licence", type=str, default="other")
    parser.add_argument("--count", type=int, default=1)
    return parser


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["a", "b", "--license", "mit"],
            "there is no flag --license; did you mean --licence? (without a flag: SOURCE, TARGET)",
        ),
        (["a", "b", "--source", "c"], "there is no flag --source; "),
        (["a", "b", "--count", "x"], "--count x: expected a whole number, such as 8"),
    ],
)
def test_a_file_verb_s_wrong_words_are_one_sentence(words, said):
    with pytest.raises(InputError) as told:
        verb_parser().parse_args(words)
    assert str(told.value).startswith(said) and "\n" not in str(told.value)
    assert "--source?" not in str(told.value) and ("without a flag" in str(told.value)) == ("no flag" in said)


def test_a_list_is_named_as_a_reader_types_it():
    parser = FileVerbParser(prog="x")
    parser.add_argument("plans", type=list[str], metavar="[ITEM,...]", help="Plans.")
    parser.add_argument("--set", type=list[str], metavar="[ITEM,...]")
    text = parser.format_help()
    assert "PLANS ..." in text and "--set [ITEM,...]" in text


def test_the_default_model_s_and_the_data_s_flags_are_shown_and_none_that_the_data_fill_in():
    chosen = chosen_parser({})
    flags = {flag for action in chosen._actions for flag in action.option_strings}
    assert {"--model.loss", "--model.net.variant", "--data.batch_size", "--data.augment.flip"} <= flags
    assert not {f"--model.{fact}" for fact in DATA_FACTS} & flags
    assert set(TITLES) == {"trainer", "model", "data", "checkpoint", "last", "early_stopping"}
    assert not re.search(r"(?m)^usage", chosen.format_help()) and "--help" not in flags
    assert all(sentence and not sentence.endswith(".") for sentence, _ in OUR_SENTENCES.values())
