"""Plans: the command lines that they mean, and what is wrong with those that mean none."""

from pathlib import Path

import pytest

from vit_lightning.commands.sweep.plan import Figure, are_numbers, read_plan
from vit_lightning.errors import InputError

GOOD = """
# a note
fit: >-
  -c x.yaml --data.root {DATA} --data.augment.rand_augment [2,10] --model.net '{variant: Ti/4}'
then:
  - test --ckpt_path best --data.image_size {size}
over:
  size: {8: "", "16": --data.image_size 16 --data.batch_size 8}
  --seed_everything: [0, 1]
figure: {x: size, y: test/top1, spread: --seed_everything}
"""


def read(folder: Path, text: str, **given: str):
    (folder / "mine.yaml").write_text(text)
    return read_plan(folder / "mine.yaml", given, Path("runs"))


def test_cells_are_all_combinations_in_order(tmp_path):
    plan = read(tmp_path, GOOD, DATA="/a folder/[x]")
    assert [cell.name for cell in plan.cells] == [
        "size=8,seed_everything=0",
        "size=8,seed_everything=1",
        "size=16,seed_everything=0",
        "size=16,seed_everything=1",
    ]
    common = ["-c", "x.yaml", "--data.root", "/a folder/[x]", "--data.augment.rand_augment", "[2,10]"]
    common += ["--model.net", "{variant: Ti/4}"]
    own = [*common, "--data.image_size", "16", "--data.batch_size", "8", "--seed_everything", "1"]
    last = plan.cells[-1]
    assert last.lines == [["fit", *own], ["test", *own, "--ckpt_path", "best", "--data.image_size", "16"]]
    assert last.labels == {"size": "16", "seed_everything": "1"} and last.place == f"mine/{last.name}"
    assert plan.figures == [Figure("size", "test/top1", spread="seed_everything")]
    assert (plan.spread, plan.filled) == ("seed_everything", {"DATA"})


def test_values_are_words_as_written_and_names_are_safe(tmp_path):
    plan = read(tmp_path, "fit: --a 1\nover:\n  --b: [1e-3, true, 'x/y z', '[2,10]']\n")
    assert [cell.lines[0][3:] for cell in plan.cells] == [
        ["--b", value] for value in ("1e-3", "true", "x/y z", "[2,10]")
    ]
    assert [cell.name for cell in plan.cells] == ["b=1e-3", "b=true", "b=x_y_z", "b=_2,10_"]


def test_words_may_depend_on_another_axis(tmp_path):
    over = "over:\n  net: {a: --net a, b: --net b}\n  compute: {low: {a: --steps 8, b: --steps 2}, none: ''}\n"
    plan = read(tmp_path, f"fit: --x 1\n{over}")
    assert [cell.lines[0][3:] for cell in plan.cells] == [
        ["--net", "a", "--steps", "8"],
        ["--net", "a"],
        ["--net", "b", "--steps", "2"],
        ["--net", "b"],
    ]
    wrong = {
        "b: --steps 2": ("c: --steps 2", r"compute, low: the axis net has no label c \(it has a, b\)"),
        ", b: --steps 2": ("", "compute, low: b of the axis net is missing; '' adds no words there"),
        "a: --steps 8, b: --steps 2": ("d: ''", "compute, low: no other axis has the labels d"),
    }
    for words, (others, sentence) in wrong.items():
        with pytest.raises(InputError, match=sentence):
            read(tmp_path, "fit: --x 1\n" + over.replace(words, others))


def test_words_may_depend_on_the_axis_with_the_same_labels_where_another_has_more(tmp_path):
    over = "over: {--s: [a, b, c], net: {a: --net a, b: --net b}, t: {low: {a: --steps 8, b: --steps 2}}}\n"
    assert read(tmp_path, f"fit: --x 1\n{over}").cells[1].lines[0][5:] == ["--net", "b", "--steps", "2"]


def test_another_plans_runs_are_found_by_label(tmp_path):
    plan = read(tmp_path, "fit: --model.weights {RUNS}/pre/s={s}/x\nover: {s: {one: '', two: ''}}\n")
    assert plan.cells[1].lines == [["fit", "--model.weights", "runs/pre/s=two/x"]]


def test_labels_and_the_folder_of_runs_are_filled_in_before_what_is_set(tmp_path):
    """Another plan of the same call may have a placeholder that is called as an axis of this one."""
    plan = read(tmp_path, "fit: --x {RUNS} {size} {A}\nover: {size: {8: '', '16': ''}}\n", size="4", RUNS="b", A="c")
    assert [cell.lines[0][2:] for cell in plan.cells] == [["runs", "8", "c"], ["runs", "16", "c"]]
    assert plan.filled == {"A"}


def test_what_is_filled_in_is_not_read_again(tmp_path):
    assert read(tmp_path, "fit: --x {A}\nover: {--s: [0]}", A="{B}").cells[0].lines[0][2] == "{B}"


OVER = "over: {--s: [0, 1]}\n"
BAD = {
    "no mapping": ("- fit\n", "must hold a mapping such as `fit: ...`, not list"),
    "broken": ("fit: [\n", "is not valid YAML in line 2"),
    "key": (f"fit: --a 1\nfigur: 1\n{OVER}", "unknown key 'figur'; did you mean figure?"),
    "no fit": (OVER, "it lacks fit"),
    "no axes": ("fit: --a 1\n", "it lacks over"),
    "axes as list": ("fit: --a 1\nover: [a]\n", "over must hold axes such as .* not list"),
    "empty axis": ("fit: --a 1\nover: {--s: []}\n", "the axis --s is empty"),
    "list without flag": ("fit: --a 1\nover: {s: [1]}\n", "a list of values goes to an axis that is a flag"),
    "value twice": ("fit: --a 1\nover: {--s: [1, 1]}\n", "the axis --s has 1 twice"),
    "number twice": ("fit: --a 1\nover: {--s: [0, 1, 00]}\n", "the axis --s has 0 twice"),
    "rate twice": ("fit: --a 1\nover: {--s: [0.1, 1e-1]}\n", "the axis --s has 0.1 twice"),
    "seed twice": (
        "fit: --a 1\nover: {seed: {a: --seed_everything 0, b: --seed_everything 1, c: --seed_everything 0}}\n",
        "the axis seed has the same words at a and c; give each its seed",
    ),
    "label twice": ("fit: --a 1\nover:\n  s:\n    a: --b 1\n    a: --b 2\n", "in line 5: 'a' is written twice"),
    "axis twice": ("fit: --a 1\nover: {--s: [0], s: {a: ''}}\n", "an axis twice, with and without dashes"),
    "same folder": ("fit: --a 1\nover: {s: {a/b: '', a b: ''}}\n", "would share the folder s=a_b"),
    "long name": (f"fit: --a 1\nover: {{s: {{{'a' * 210}: ''}}}}\n", "would have 212 characters; shorten"),
    "verb": (f"fit: test -c a.yaml\n{OVER}", "fit: expected flags of fit, such as .* not 'test'"),
    "list as words": (f"fit: [--a, 1]\n{OVER}", "fit: expected text, not list"),
    "quote": (f'fit: --a "1\n{OVER}', "has an open quote"),
    "list as value": ("fit: --a 1\nover: {--s: [[2,10]]}\n", "--s: expected text, not list; quote"),
    "owned": (f"fit: --ckpt_path last\n{OVER}", "leave out --ckpt_path: a sweep goes on with unfinished runs"),
    "owned=": (f"fit: --trainer.default_root_dir=x\n{OVER}", "leave out --trainer.default_root_dir"),
    "owned in axis": ("fit: --a 1\nover: {--trainer.logger: [a]}\n", "leave out --trainer.logger"),
    "then fit": (f"fit: --a 1\nthen: [fit -c a]\n{OVER}", "must begin with validate, test or predict"),
    "then mistyped": (
        f"fit: --a 1\nthen: [test --ckpt_path=lastt]\n{OVER}",
        "--ckpt_path lastt: expected last, best or a file; did you mean last",
    ),
    "then without": (f"fit: --a 1\nthen: [test]\n{OVER}", "needs --ckpt_path last or best"),
    "then text": (f"fit: --a 1\nthen: test\n{OVER}", "then: expected a list"),
    "unset": (f"fit: --a {{DATA}}\n{OVER}", r"\{DATA\} has no value; give --set DATA=VALUE"),
    "figure text": (f"fit: --a 1\nfigure: s\n{OVER}", "figure must hold a mapping"),
    "figure key": (
        f"fit: --a 1\n{OVER}figure: {{x: s, y: val/b, xscal: log}}\n",
        "unknown key 'xscal'; did you mean xscale",
    ),
    "figure without y": (f"fit: --a 1\n{OVER}figure: {{x: s}}\n", "figure lacks y"),
    "figure x": (f"fit: --a 1\n{OVER}figure: {{x: t, y: val/b}}\n", "x t is no axis .of s, or a metric such as cost"),
    "figure spread": (f"fit: --a 1\n{OVER}figure: {{x: s, y: val/b, spread: c/d}}\n", "spread c/d is no axis .of s."),
    "figure scale": (
        f"fit: --a 1\n{OVER}figure: {{x: s, y: val/b, yscale: ln}}\n",
        "yscale ln: expected linear or log",
    ),
    "figure log": (f"fit: --a 1\n{OVER}figure: {{x: s, y: val/b, xscale: log}}\n", "xscale log needs numbers above 0"),
    "axis left": (
        "fit: --a 1\nover: {--s: [0], --t: [1, 2]}\nfigure: {x: s, y: val/b}\n",
        "the axis t is neither x nor",
    ),
    "figure y": (
        f"fit: --a 1\n{OVER}figure: {{x: s, y: tset/top1}}\n",
        "y tset/top1 is no metric; the name of one begins with best val/, cost/, perf/, test/, train/, val/",
    ),
    "figure y as axis": (f"fit: --a 1\n{OVER}figure: {{x: val/top1, y: --s}}\n", "y --s is an axis, not a metric;"),
    "figure x metric": (f"fit: --a 1\n{OVER}figure: {{x: costs/e, y: val/b}}\n", "x costs/e is no metric"),
    "figure published": (
        f"fit: --a 1\n{OVER}figure: {{x: cost/exaflops, y: val/b, published: compute/cifar}}\n",
        "compute: no task cifar; did you mean cifar10",
    ),
    "figure without test": (
        f"fit: --a 1\nthen: [validate --ckpt_path last]\n{OVER}figure: {{x: s, y: test/top1}}\n",
        "y test/top1 needs a line such as `test --ckpt_path last` under then",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), BAD.values(), ids=BAD)
def test_what_is_no_plan_is_told_in_a_sentence(tmp_path, text, sentence):
    with pytest.raises(InputError, match=sentence) as told:
        read(tmp_path, text)
    assert "mine.yaml" in str(told.value) and "\n" not in str(told.value)


def test_runs_without_a_seed_of_their_own_may_be_alike(tmp_path):
    plan = read(tmp_path, "fit: --a 1\nover: {again: {a: '', b: ''}, --s: [nan, x]}\n")  # two times, such as of a speed
    assert [cell.lines[0][3:] for cell in plan.cells] == [["--s", "nan"], ["--s", "x"]] * 2
    labels = "fit: --a 1\nover: {seed: {1: '--seed_everything {seed}', 2: '--seed_everything {seed}'}}\n"
    assert [cell.lines[0][-1] for cell in read(tmp_path, labels).cells] == ["1", "2"]


def test_an_axis_of_one_label_need_not_be_drawn(tmp_path):
    plan = read(tmp_path, "fit: --a 1\nover: {--s: [0, 1], --t: [7]}\nfigure: {x: s, y: best val/top1}\n")
    assert plan.figures == [Figure("s", "best val/top1")]


def test_a_plan_that_is_not_there(tmp_path):
    (tmp_path / "rates.yaml").touch()
    with pytest.raises(InputError, match=r"no such plan; did you mean .*rates\.yaml"):
        read_plan(tmp_path / "rate.yaml", {}, Path("runs"))


def test_nested_words_follow_another_axis_than_their_own(tmp_path):
    plan = read(
        tmp_path,
        """
fit: -c x.yaml
over:
  smooth: {"0": {"0": --a 00, "1": --a 01}, "1": {"0": --a 10, "1": --a 11}}
  --seed_everything: [0, 1]
""",
    )
    assert [cell.lines[0][-3] for cell in plan.cells] == ["00", "01", "10", "11"]


def test_nested_words_follow_the_axis_that_has_their_labels_not_one_that_has_some(tmp_path):
    plan = read(
        tmp_path,
        """
fit: -c x.yaml
over:
  --warmup: [1, 2]
  --seed_everything: [1, 2, 3]
  smooth: {a: {"1": --a 1, "2": --a 2, "3": --a 3}}
""",
    )
    assert [cell.lines[0][-1] for cell in plan.cells] == ["1", "2", "3"] * 2


def test_nested_words_that_two_axes_could_decide_are_refused(tmp_path):
    with pytest.raises(InputError, match="smooth, a: warmup and seed_everything have the same labels"):
        read(
            tmp_path,
            """
fit: -c x.yaml
over:
  --warmup: [1, 2]
  --seed_everything: [1, 2]
  smooth: {a: {"1": --a 1, "2": --a 2}}
""",
        )


@pytest.mark.parametrize(
    ("axes", "figure", "spread"),
    [
        ("--seed_everything: [0, 1], --lr: [1, 2]", "", "seed_everything"),
        ("--lr: [1, 2], seed: {a: '', b: ''}", "", "seed"),
        ("--seed_everything: [0, 1], seed: {a: '', b: ''}", "", "seed"),
        ("--lr: [1, 2]", "", None),
        ("--lr: [1, 2], --seed_everything: [0, 1]", "{x: seed_everything, y: val/b, spread: lr}", "lr"),
        ("--lr: [1, 2], --seed_everything: [0, 1]", "{x: lr, y: val/b, line: seed_everything}", "seed_everything"),
    ],
)
def test_means_are_taken_over_the_axis_of_a_figure_or_of_the_seeds(tmp_path, axes, figure, spread):
    text = f"fit: --a 1\nover: {{{axes}}}\n" + f"figure: {figure}\n" * bool(figure)
    assert read(tmp_path, text).spread == spread


def test_several_figures_keep_their_order_and_their_settings(tmp_path):
    over = "over: {--lr: [1, 2], net: {a: '', b: ''}}\n"
    figures = "figure: [{x: lr, y: val/b, line: net, xscale: log, yscale: log, title: T}, {x: cost/a, y: val/b}]\n"
    assert read(tmp_path, f"fit: --a 1\n{over}{figures}").figures == [
        Figure("lr", "val/b", "net", None, "log", "log", "T"),
        Figure("cost/a", "val/b"),
    ]


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [(["1", "1e-3", "-2"], True), (["1", "nan"], False), (["1", "a"], False), (["inf"], True), ([""], False)],
)
def test_labels_are_numbers_or_not(labels, numbers):
    assert are_numbers(labels) == numbers


def test_a_label_of_just_the_longest_name_is_taken(tmp_path):
    text = "fit: --a 1\nover: {{s: {{{}: ''}}}}\n"
    assert len(read(tmp_path, text.format("a" * 198)).cells[0].name) == 200
    with pytest.raises(InputError, match="would have 201 characters"):
        read(tmp_path, text.format("a" * 199))


@pytest.mark.parametrize("flag", ["--ckpt_path", "--trainer.default_root_dir", "--trainer.logger"])
@pytest.mark.parametrize("form", ["{} x", "{}=x"])
def test_every_flag_that_a_sweep_sets_itself_is_refused(tmp_path, flag, form):
    with pytest.raises(InputError, match=f"leave out {flag}: a sweep"):
        read(tmp_path, f"fit: {form.format(flag)}\nover: {{--s: [0]}}\n")
    with pytest.raises(InputError, match=f"leave out {flag}: a sweep"):
        read(tmp_path, f"fit: --a 1\nover: {{s: {{a: {form.format(flag)}}}}}\n")


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
@pytest.mark.parametrize("checkpoint", ["last", "best", "x.ckpt", "runs/x"])
def test_what_follows_a_fit_names_its_checkpoint(tmp_path, verb, checkpoint):
    for words in (f"{verb} --a --ckpt_path {checkpoint}", f"{verb} --ckpt_path={checkpoint} --a"):
        plan = read(tmp_path, f"fit: --b 1\nthen: ['{words}']\nover: {{--s: [0]}}\n")
        assert plan.cells[0].lines[1] == [verb, "--b", "1", "--s", "0", *words.split()[1:]]
