"""average: uniform and greedy soups equal those made by hand, and are scored beside each member."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from datamodules.folder import ImageFolder
from tests.commands.test_ensembles import CLASSES, net, save, shares, top1
from vit_lightning.classifier import Classifier

WORDS = ("--data", "ImageFolder", "--data.root", "set", "--data.image_size", 8, "--data.batch_size", 4)
WORDS += ("--trainer.accelerator", "cpu", "--data.num_workers", 0)
NAMES = ["0.ckpt", "1.ckpt", "2.ckpt", "3.ckpt"]


@pytest.fixture
def nets(app, tmp_path):
    """Four nets around one start, whose head answers at random, and 31 images of their classes."""
    for number in range(31):
        for split in ("train", "val"):
            path = tmp_path / "set" / split / CLASSES[number % 3] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(number).integers(0, 256, (11, 9, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path)
    for seed in range(4):
        save(f"{seed}.ckpt", net(seed))
    return app


def soup(names: list[str]):
    states = [torch.load(name, weights_only=True)["state_dict"] for name in names]
    model = net(0)
    model.load_state_dict({key: torch.stack([state[key] for state in states]).mean(0) for key in states[0]})
    return model.eval()


def score(names: list[str]) -> float:
    data = ImageFolder(root=Path("set"), image_size=8, batch_size=31, num_workers=0)
    data.setup("fit")
    pixels, labels = next(iter(data.val_dataloader()))
    return top1(shares(soup(names), pixels), labels)


def by_hand() -> list[str]:
    first, *others = sorted(NAMES, key=lambda name: score([name]), reverse=True)
    taken = [first]
    for name in others:
        taken += [name] if score([*taken, name]) >= score(taken) else []
    return taken


@pytest.mark.parametrize("greedy", [False, True])
def test_a_soup_is_that_made_by_hand(nets, greedy):
    done = nets("average", *NAMES, *WORDS, "--out", "soup.ckpt", "--greedy", str(greedy).lower())
    assert done.code == 0, done.err
    taken = by_hand() if greedy else NAMES
    expected = soup(taken).state_dict()
    found = torch.load("soup.ckpt", weights_only=True)
    assert found["state_dict"].keys() == expected.keys() and found["class_names"] == CLASSES
    assert all(torch.allclose(found["state_dict"][name], expected[name], atol=1e-7) for name in expected)
    said = dict(re.findall(r"member   (\S+): top-1 ([\d.]+) %", done.out))
    assert {name: float(value) for name, value in said.items()} == pytest.approx(
        {name: 100 * score([name]) for name in NAMES}, abs=0.01
    )
    best = max(score([name]) for name in NAMES)
    kind = f"greedy, {len(taken)} of 4 nets" if greedy else "uniform, 4 nets"
    assert f"soup     {kind}: top-1 {100 * score(taken):.2f} %, {100 * (score(taken) - best):+.2f} points" in done.out
    again = nets("validate", "soup.ckpt", *WORDS)
    assert again.code == 0 and f"{100 * score(taken):.2f} %" in again.out, again.err


def merged(seed: int, lora: dict) -> dict[str, torch.Tensor]:
    """The tensors of a net with low-rank updates, each added to its kernel."""
    state = net(seed, lora=lora).state_dict()
    plain = {name: tensor for name, tensor in state.items() if ".lora." not in name}
    for name in [name for name in state if name.endswith(".lora.a")]:
        layer = name.removesuffix(".lora.a")
        plain[f"{layer}.weight"] = plain[f"{layer}.weight"] + lora["alpha"] / lora["rank"] * (
            state[f"{layer}.lora.b"] @ state[name]
        )
    assert len(plain) < len(state)
    return plain


@pytest.mark.parametrize("greedy", [False, True])
def test_low_rank_updates_are_averaged_as_their_kernels(nets, greedy):
    loras = [{"rank": 2, "alpha": 8.0}, {"rank": 2, "alpha": 4.0}, {"rank": 3, "alpha": 6.0}]
    for seed, lora in enumerate(loras):
        save(f"{seed}.ckpt", net(seed, lora=lora))
    states = [merged(seed, lora) for seed, lora in enumerate(loras)] + [net(3).state_dict()]

    def soup_of(numbers) -> Classifier:
        model = net(0)
        model.load_state_dict({name: torch.stack([states[n][name] for n in numbers]).mean(0) for name in states[0]})
        return model

    def right(*numbers: int) -> float:
        return top1(shares(soup_of(numbers), pixels), labels)

    data = ImageFolder(root=Path("set"), image_size=8, batch_size=31, num_workers=0)
    data.setup("fit")
    pixels, labels = next(iter(data.val_dataloader()))
    taken = list(range(4))
    if greedy:
        first, *others = sorted(taken, key=right, reverse=True)
        taken = [first]
        for number in others:
            taken += [number] if right(*taken, number) >= right(*taken) else []
    done = nets("average", *NAMES, *WORDS, "--out", "soup.ckpt", "--greedy", str(greedy).lower())
    assert done.code == 0, done.err
    for number in range(4):
        assert f"{number}.ckpt: top-1 {100 * right(number):.2f} %" in done.out
    assert f"{len(taken)} of 4 nets" in done.out or not greedy
    found, expected = torch.load("soup.ckpt", weights_only=True)["state_dict"], soup_of(taken).state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.allclose(found[name], expected[name], atol=1e-6) for name in expected)
    again = nets("validate", "soup.ckpt", *WORDS)
    assert again.code == 0 and f"{100 * right(*taken):.2f} %" in again.out, again.err


def test_what_is_no_soup_is_a_sentence_and_writes_nothing(nets):
    save("other.ckpt", net(0, classes=4), ["a", "b", "c", "d"])
    save("names.ckpt", net(0), ["bird", "cat", "car"])
    save("mean.ckpt", net(0, mean=(0.1,) * 3))
    Path("there.ckpt").write_text("mine")
    for words, out, said in (
        (["0.ckpt"], "soup.ckpt", "average needs checkpoints of two or more Classifiers"),
        (
            ["0.ckpt", "other.ckpt"],
            "soup.ckpt",
            "other.ckpt and 0.ckpt cannot be averaged, since their numbers of classes differ (4 and 3); ",
        ),
        (
            ["0.ckpt", "names.ckpt"],
            "soup.ckpt",
            "names.ckpt and 0.ckpt cannot be averaged, since their class names differ (",
        ),
        (
            ["0.ckpt", "mean.ckpt"],
            "soup.ckpt",
            "mean.ckpt and 0.ckpt cannot be averaged, since their normalisations differ (",
        ),
        (["0.ckpt", "nowhere.ckpt"], "soup.ckpt", "no weights at 'nowhere.ckpt'"),
        (["0.ckpt", "1.ckpt"], "there.ckpt", "--out there.ckpt exists already"),
        (["0.ckpt", "1.ckpt"], "soup.npz", "soup.npz ends in .npz"),
    ):
        done = nets("average", *words, *WORDS, "--out", out)
        assert done.code == 1 and said in done.err.splitlines()[-1], done.err
        assert not Path("soup.ckpt").exists() and not Path("soup.npz").exists()
    assert Path("there.ckpt").read_text() == "mine"


@pytest.mark.parametrize(("apart", "said"), [("weights", True), ("heads", True), ("", False)])
def test_nets_without_a_common_start_are_warned_of_before_their_scores(nets, apart, said):
    states = [net(seed).state_dict() for seed in (0, 1)]
    for name in states[1]:
        if apart != {True: "heads", False: "weights"}["head." in name]:
            states[1][name] = states[0][name] + 0.05 * states[1][name]  # as after some steps from there
    other = net(0)
    other.load_state_dict(states[1])
    save("tuned.ckpt", other)
    done = nets("average", "0.ckpt", "tuned.ckpt", *WORDS, "--out", "soup.ckpt")
    assert done.code == 0, done.err
    warnings = [line for line in done.out.splitlines() if line.startswith("warning  ")]
    assert len(warnings) == said
    if said:
        assert f"the {apart} of tuned.ckpt were trained apart from those of 0.ckpt, so that" in warnings[0]
        assert done.out.index("warning  ") < done.out.index("member   ")
