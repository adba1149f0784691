"""Soups without the application: what is averaged, what is taken, and which nets are no members."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vit_lightning.classifier import Classifier
from vit_lightning.commands import average as module
from vit_lightning.commands.average import Scores, _checked, _greedy, _warnings, mean_state
from vit_lightning.errors import InputError
from vit_lightning.models import NetConfig, build
from vit_lightning.weights import Report

A, B, C, D = (Path(f"{name}.ckpt") for name in "abcd")


def test_tensors_are_averaged_and_counts_are_the_firsts(monkeypatch):
    states = {
        path: {"w": torch.tensor([value, 1.0]), "half": torch.tensor(value).bfloat16(), "count": torch.tensor(number)}
        for path, value, number in ((A, 1.0, 7), (B, 2.0, 8), (C, 6.0, 9))
    }
    monkeypatch.setattr(module, "load_net", lambda path: (SimpleNamespace(state_dict=lambda: states[path]), None))
    found = mean_state([B, A, C])
    assert found["w"].tolist() == [3.0, 1.0] and found["half"].item() == 3.0 and found["count"].item() == 8
    assert found["w"].dtype == found["half"].dtype == torch.float32 and found["count"].dtype == torch.int64


def test_sums_are_those_of_doubles(monkeypatch):
    """In fp32 the ones would be lost beside the large number."""
    values = iter([2.0**25, 1.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr(
        module, "load_net", lambda path: (SimpleNamespace(state_dict=lambda: {"w": torch.tensor([next(values)])}), None)
    )
    assert mean_state([A] * 5)["w"].item() == torch.tensor((2.0**25 + 4) / 5).item()


class Table:
    """Scores of sets of checkpoints."""

    def __init__(self, sign: int, **scores: float) -> None:
        self.sign, self.scores, self.asked = sign, scores, []

    def of(self, paths: list[Path]) -> float:
        self.asked.append("".join(path.stem for path in paths))
        return self.scores[self.asked[-1]]


@pytest.mark.parametrize(
    ("sign", "alone", "scores", "taken", "value"),
    [
        (1, (0.5, 0.7, 0.6), {"bc": 0.8, "bca": 0.75}, [B, C], 0.8),
        (1, (0.5, 0.7, 0.6), {"bc": 0.6, "ba": 0.9}, [B, A], 0.9),
        (1, (0.5, 0.7, 0.6), {"bc": 0.7, "bca": 0.7}, [B, C, A], 0.7),  # what does not lower the score is taken
        (-1, (0.5, 0.7, 0.6), {"ac": 0.4, "acb": 0.45}, [A, C], 0.4),
        (-1, (0.5, 0.7, 0.6), {"ac": 0.6, "ab": 0.5}, [A, B], 0.5),
        (1, (0.7, 0.7, 0.1), {"ab": 0.1, "ac": 0.1}, [A], 0.7),  # of equals the first
    ],
)
def test_a_greedy_soup(sign, alone, scores, taken, value):
    table = Table(sign, **scores)
    assert _greedy(dict(zip((A, B, C), alone, strict=True)), table) == (taken, value)
    assert table.asked == list(scores)


@pytest.mark.parametrize(
    ("monitor", "sign", "said"),
    [
        (("val/top1", "max"), 1, "top-1 25.00 %"),
        (("val/loss", "min"), -1, "0.25"),
        (("val/own", "max"), 1, "val/own 0.25"),
    ],
)
def test_scores_are_of_the_metric_that_chooses_the_best(monitor, sign, said):
    scores = Scores(None, SimpleNamespace(monitor=monitor), None, None)
    assert (scores.metric, scores.sign) == (monitor[0], sign) and scores.said(0.25).endswith(said)


@pytest.mark.parametrize("is_built", [True, False])
def test_a_mean_is_validated_in_the_net_of_the_first_checkpoint(monkeypatch, is_built):
    called: list[object] = []
    one_label = {"val": SimpleNamespace(several=False)}
    model = SimpleNamespace(monitor=("val/top1", "max"), net=None, split_scores=one_label)
    net = SimpleNamespace(load_state_dict=called.append)

    def validate(given, **options) -> None:
        model.net = net
        called.append({name: each for name, each in options.items() if name != "verbose"})

    model.net = net if is_built else None
    monkeypatch.setattr(module, "drop_lora", lambda net: called.append("plain"))
    monkeypatch.setattr(module, "mean_state", lambda paths: list(paths))
    trainer = SimpleNamespace(validate=validate, callback_metrics={"val/top1": torch.tensor(0.5), "val/loss": 9.0})
    assert Scores(trainer, model, "data", "first.ckpt").of([A, B]) == 0.5
    first = [] if is_built else [{"datamodule": "data", "ckpt_path": "first.ckpt"}]
    assert called == [*first, "plain", [A, B], {"datamodule": "data"}]


def member(**facts):
    torch.manual_seed(0)
    config = NetConfig("mu/8", **facts.pop("config", {}))
    net = build(config, facts.pop("image_size", (8, 8)), facts.pop("classes", 3))
    usual = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "class_names": ["a", "b", "c"], "window": None}
    recipe = {"loss": facts.pop("loss", "softmax")}
    return net, Report("", "", training={"recipe": recipe}, **usual | facts)


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({}, None),
        ({"config": {"gelu": "exact"}}, "nets differ (gelu is 'exact' and 'tanh')"),
        ({"config": {"pool": "gap"}}, "nets differ (pool is 'gap' and 'token')"),
        ({"image_size": (16, 16)}, "image sizes differ ((16, 16) and (8, 8))"),
        ({"classes": 4}, "numbers of classes differ (4 and 3)"),
        ({"class_names": ["a", "c", "b"]}, "class names differ (1 is 'c' and 'b')"),
        ({"class_names": []}, "class names differ (none and a, b, c)"),
        ({"mean": (0.4,) * 3}, "normalisations differ (((0.4, 0.4, 0.4), (0.5, 0.5, 0.5)) and ((0.5, "),
        ({"std": (0.4,) * 3}, "normalisations differ (((0.5, 0.5, 0.5), (0.4, 0.4, 0.4)) and ((0.5, "),
        ({"window": (0.0, 9.0)}, "windows differ ((0.0, 9.0) and None)"),
        ({"loss": "sigmoid"}, "losses differ (sigmoid and softmax)"),
    ],
)
def test_what_makes_weights_mean_something_else(monkeypatch, facts, what):
    other = member(**facts)
    monkeypatch.setattr(module, "load_net", lambda path: other)
    if what is None:
        assert _checked(B, (A, *member())) is other[0]
        next(other[0].parameters()).data.view(-1)[0] = torch.nan
        with pytest.raises(InputError, match=r"^b\.ckpt holds weights that are not finite"):
            _checked(B, (A, *member()))
        return
    with pytest.raises(InputError) as raised:
        _checked(B, (A, *member()))
    assert str(raised.value).startswith(f"b.ckpt and a.ckpt cannot be averaged, since their {what}")
    assert str(raised.value).endswith("; give checkpoints of one net, trained on the same data")


def test_nets_that_were_trained_apart_are_named_in_one_sentence_for_each_part():
    assert list(_warnings({B: "", C: ""}, A)) == []
    assert list(_warnings({B: "heads", C: "weights", D: "weights"}, A)) == [
        "the weights of c.ckpt, d.ckpt were trained apart from those of a.ckpt, so that their mean may answer by "
        "chance: average nets that were fine-tuned from one checkpoint",
        "the heads of b.ckpt were trained apart from those of a.ckpt, so that their mean may answer by chance: begin "
        "each fit with the same head, by --model.weights CHECKPOINT --model.weights_head keep",
    ]


@pytest.fixture
def soup(monkeypatch, tmp_path):
    """Call average with nets that score what the table says; returns the lines it prints, and what it saves."""

    def run(scores: dict[str, float], sign: int = 1, model=None, **words):
        said, saved = [], []
        own = {
            "load_net": lambda path: (
                SimpleNamespace(load_state_dict=lambda state: saved.append(state)),
                Report("facts", ""),
            ),
            "_checked": lambda path, first: saved.append(f"checked {path}"),
            "_apart": lambda net, other: "",
            "mean_state": lambda paths: [path.name for path in paths],
            "save": lambda net, facts, out, to: saved.append((facts.source, out.name, to)),
            "report": said.append,
            "near": lambda path: path.name,
        }
        for name, each in own.items():
            monkeypatch.setattr(module, name, each)
        monkeypatch.setattr(Scores, "of", lambda self, paths: scores["".join(path.stem for path in paths)])
        model = model or Classifier(net={"variant": "mu/8"}, num_classes=2, image_size=8)
        monitor = ("val/top1", "max") if sign > 0 else ("val/loss", "min")
        monkeypatch.setattr(Classifier, "monitor", monitor)
        words = {"out": tmp_path / "soup.ckpt", "ckpt_path": "a.ckpt", "members": ["b.ckpt", "c.ckpt"]} | words
        module.average(SimpleNamespace(is_global_zero=words.pop("first", True)), model, None, **words)
        return said, saved

    return run


UP = {"a": 0.5, "b": 0.75, "c": 0.25}


def test_all_are_averaged_and_scored_beside_each(soup):
    said, saved = soup(UP | {"abc": 0.7})
    assert [line.split(":")[0] for line in said[:3]] == [f"member   {name}.ckpt" for name in "abc"]
    assert said[3].startswith("soup     uniform, 3 nets: ") and said[3].endswith(
        "-5.00 points from its best member, b.ckpt"
    )
    assert said[4] == "wrote    soup.ckpt"
    assert saved == [
        "checked b.ckpt",
        "checked c.ckpt",
        ["a.ckpt", "b.ckpt", "c.ckpt"],
        ("facts", "soup.ckpt", "checkpoint"),
    ]


def test_some_are_taken_by_a_loss_that_is_least(soup):
    said, saved = soup(UP | {"ca": 0.2, "cab": 0.3}, sign=-1, greedy=True)
    assert said[3].startswith("soup     greedy, 2 of 3 nets: ") and said[3].endswith(
        "+5.00 points from its best member, c.ckpt"
    )
    assert saved[2] == ["c.ckpt", "a.ckpt"]


def test_the_first_may_be_given_as_weights_and_one_process_alone_writes(soup):
    weighted = Classifier(net={"variant": "mu/8"}, num_classes=2, image_size=8)
    weighted.weights = "a.ckpt"
    said, saved = soup(UP | {"abc": 0.7}, model=weighted, ckpt_path=None, first=False)
    assert len(said) == 4 and saved == ["checked b.ckpt", "checked c.ckpt"]


@pytest.mark.parametrize("words", [{"members": []}, {"model": SimpleNamespace(weights="a.ckpt")}])
def test_one_net_is_no_soup(soup, words):
    with pytest.raises(InputError, match="average needs checkpoints of two or more Classifiers"):
        soup(UP, **words)


@pytest.mark.parametrize("spelled", ["b.ckpt", "./b.ckpt", str(Path("b.ckpt").absolute()), "x/../b.ckpt"])
def test_no_net_counts_twice(soup, spelled):
    with pytest.raises(InputError, match=r"^b\.ckpt is given twice; name each checkpoint once$"):
        soup(UP, members=["b.ckpt", "c.ckpt", spelled])


def test_a_split_is_its_images_and_not_how_it_was_drawn(monkeypatch):
    """A run that went on has its split from its table, and knows neither shares nor seed."""
    split = {"digest": "1a", "train": 7, "val": 2, "test": 2}
    drawn, went_on = split | {"val_fraction": 0.2, "split_seed": 0}, split | {"val_fraction": None, "split_seed": None}
    first = (A, *member(of_data={"ImageFolder": {"split": drawn}}))
    monkeypatch.setattr(module, "load_net", lambda path: member(of_data={"ImageFolder": {"split": went_on}}))
    assert _checked(B, first)


@pytest.mark.parametrize(("is_kept", "table"), [(True, "runs/head/0/split.csv"), (False, "SPLIT.csv")])
def test_another_split_is_said_in_images_and_with_what_would_make_it_one(monkeypatch, tmp_path, is_kept, table):
    monkeypatch.chdir(tmp_path)
    first, second = (Path(f"runs/head/{number}/checkpoints/best.ckpt") for number in (0, 1))
    for path in (first, second):
        path.parent.mkdir(parents=True)
        (path.parents[1] / "config.yaml").touch()
    if is_kept:
        (first.parents[1] / "split.csv").touch()
    then, now = ({"digest": str(count), "train": count, "val": 33, "test": 33} for count in (141, 155))
    monkeypatch.setattr(module, "load_net", lambda path: member(of_data={"ImageFolder": {"split": now}}))
    with pytest.raises(InputError) as raised:
        _checked(second, (first, *member(of_data={"ImageFolder": {"split": then}})))
    assert str(raised.value) == (
        f"{second} and {first} cannot be averaged, since their splits of the data differ: trained on 155 and on 141 "
        f"images, each of its own split; fit the former again with --data.split_file {table}"
    )


def test_no_file_is_written_over(soup, tmp_path):
    (tmp_path / "soup.ckpt").write_text("mine")
    with pytest.raises(InputError, match=r"--out .*soup\.ckpt exists already; choose another name"):
        soup(UP)
    with pytest.raises(InputError, match=r"soup\.npz ends in \.npz"):
        soup(UP, out=tmp_path / "soup.npz")


def test_a_soup_keeps_what_each_member_has_seen(monkeypatch):
    labels = {"train_set": {"labels": torch.arange(3)}}
    others = {"train_set": {"labels": torch.arange(3) + 1}}
    split = {"split": {"digest": "x"}}
    known = {
        "a": {"ImageFolder": split, "seen_labels": labels},
        "b": {"ImageFolder": split, "seen_labels": {"train_set": {"labels": torch.arange(3)}}},
        "c": {"Own": split, "seen_labels": labels, "seen_by_members": [others]},
        "d": {},
    }
    monkeypatch.setattr(module, "load_net", lambda path: (None, Report("", "", of_data=dict(known[path.name]))))
    found = module.of_data([Path(name) for name in "abcd"])
    assert found.keys() == {"ImageFolder", "Own", "seen_labels", "seen_by_members"}
    assert found["ImageFolder"] == found["Own"] == split and found["seen_labels"] is labels
    assert len(found["seen_by_members"]) == 1 and found["seen_by_members"][0] is others
    assert module.of_data([Path("a"), Path("b")]).keys() == {"ImageFolder", "seen_labels"}


def test_a_soup_keeps_what_the_weights_of_each_member_have_seen(monkeypatch):
    known = {"a": {"seen_before": {"records": [3, 5]}}, "b": {}, "c": {"seen_before": {"records": [4, 5]}}}
    monkeypatch.setattr(module, "load_net", lambda path: (None, Report("", "", of_data=dict(known[path.name]))))
    found = module.of_data([Path(name) for name in "abc"])
    assert found.keys() == {"seen_before"} and found["seen_before"]["records"] == [3, 4, 5]


def test_of_facts_that_differ_those_of_the_first_member_that_has_them_are_kept(monkeypatch):
    known = {"a": {}, "b": {"Own": {"split": "x", "facts": 1}}, "c": {"Own": {"split": "x", "facts": 2}, "Other": 3}}
    monkeypatch.setattr(module, "load_net", lambda path: (None, Report("", "", of_data=dict(known[path.name]))))
    assert module.of_data([Path(name) for name in "abc"]) == {"Own": {"split": "x", "facts": 1}, "Other": 3}
