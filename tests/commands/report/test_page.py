"""The page itself: one file that asks for nothing, whoever named the classes."""

import base64
import hashlib
import re
from itertools import pairwise

import pytest

from vit_lightning.commands.report import page as page_module
from vit_lightning.commands.report.collect import collect
from vit_lightning.commands.report.curves import Picture
from vit_lightning.commands.report.page import LARGEST, page_of_run, page_of_runs
from vit_lightning.commands.report.pictures import Pictures
from vit_lightning.commands.report.tables import ClassRow, Matrix

pytest.importorskip("matplotlib")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'&amp;{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe \u0645\u0631\u062d\u0628\u0627",
    "w" * 5000,
    "line\nbreak\x00\x1b[31m",
    "</style></title><!--",
    "\udcff$x^2$",
)


@pytest.fixture
def written(make_run, page):
    def write(*names, **settings):
        return page(page_of_run(collect(make_run(*names, **settings)), with_images=False))

    return write


@pytest.fixture
def no_curves(monkeypatch):
    """Drawing takes most of the time, and curves have a test of their own."""
    monkeypatch.setattr(page_module, "draw_run", lambda run: [])
    monkeypatch.setattr(page_module, "draw_runs", lambda runs, names: [])


def check(found) -> None:
    """What holds for every page."""
    assert len(found.all("h1")) == 1 and len(found.all("main")) == 1 and len(found.all("title")) == 1
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in found.tags}
    assert found.all("html") == [{"lang": "en"}]
    assert not {"script", "iframe", "object", "embed", "link", "form", "base"} & {tag for tag, _ in found.tags}
    for tag, attributes in found.tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        for name in ("src", "href", "srcset", "action", "poster"):
            assert attributes.get(name, "#").startswith(("data:image/", "#")), (tag, attributes)
    assert all(image["alt"].strip() for image in found.all("img"))
    assert all(header.get("scope") in ("col", "row") for header in found.all("th"))
    assert len(found.all("caption")) == len(found.all("table"))
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link["href"] for link in found.all("a")} <= {f"#{name}" for name in ids}
    assert "http://" not in found.style and "https://" not in found.style and "url(" not in found.style
    levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_page_of_a_run(written):
    found = written()
    check(found)
    assert found.text.startswith("Run pets/0")
    for said in (
        "Ti/16 with patch 8 trained from scratch on Synthetic at 32 px: test top-1 accuracy 80.00 % after 20 optimiser",
        "adamw, learning rate 0.001, weight decay 0.05",
        "200 images/s (median)",
        "The run began from scratch.",
        "dog.jpg dog cat 91.0 %",
    ):
        assert said in found.text, said
    alts = [image["alt"] for image in found.all("img")]
    assert any("training loss goes from 2 at step 1 to 0.1053 at 19" in alt for alt in alts)
    assert len(alts) == 5


def test_the_style_is_the_only_thing_that_the_policy_lets_in(written, no_curves):
    found = written()
    (policy,) = [meta["content"] for meta in found.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    assert rules["style-src"] == f"'sha256-{digest}'"
    assert "@media screen and (prefers-color-scheme: dark)" in found.style and "@media print" in found.style


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_only_shown(make_run, page, name, no_curves):
    folder = make_run(classes=("cat", name), data__class_path=f"x.{name}")
    found = page(page_of_run(collect(folder), with_images=False))
    check(found)
    assert max(map(len, found.words)) < 1500
    assert "alert(1)" not in found.style and "49" not in found.text.partition("{{ 7")[2][:20]


def test_runs_of_hostile_names_are_compared(make_run, page, no_curves):
    runs = [collect(make_run(f"{name[:60].replace('/', '')}/0", data__class_path=name)) for name in HOSTILE[:4]]
    check(page(page_of_runs(runs)))


def test_curves_hold_no_markup_of_names(make_run):
    text = page_of_runs([collect(make_run("<b>&/0")), collect(make_run("x/1"))])
    pictures = re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", text)
    assert pictures
    for picture in pictures:
        drawn = base64.b64decode(picture).decode()
        assert "<b>" not in drawn and "<script" not in drawn and 'href="http' not in drawn


def test_many_classes_are_folded_and_the_worst_come_first(make_run, page, no_curves):
    run = collect(make_run())
    run.classes = [ClassRow(f"class {n}", 5, {"f1": None if n == 7 else n / 2000}) for n in reversed(range(2000))]
    names = [f"class {n}" for n in range(2000)]
    run.confusion = Matrix(names, [(n, (n + 1) % 2000, n + 1) for n in range(2000)])
    found = page(page_of_run(run, with_images=False))
    check(found)
    assert "2,000 classes, those with the lowest F1 first. All are in test.classes.csv." in found.text
    assert found.text.index("class 0 5 0.0") < found.text.index("class 24 5") < found.text.index("975 more classes")
    assert "class 1999 class 0 2000" in found.text and "class 1500 5" not in found.text


def test_a_page_never_exceeds_its_size(make_run, monkeypatch, no_curves):
    large = Pictures(net=[Picture("net", "data:image/png;base64," + "A" * LARGEST, "net")])
    monkeypatch.setattr(page_module, "pictures_of", lambda run, with_images: large)
    text = page_of_run(collect(make_run()), with_images=False)
    assert len(text.encode()) < LARGEST
    assert "With them the page would exceed 5 MB".lower() in text.lower()


def test_an_empty_run_is_a_page_too(make_run, page):
    folder = make_run()
    for path in folder.glob("*.*"):
        path.unlink()
    found = page(page_of_run(collect(folder), with_images=False))
    check(found)
    for said in ("The run has no scores yet.", "There are no curves to draw.", "settings of the run are not known"):
        assert said in found.text


def test_the_page_of_several_runs(make_run, page):
    faster = make_run("pets/1", model__init_args__optim={"name": "adamw", "lr": 0.01, "weight_decay": 0.05})
    (faster / "test.json").write_text('{"scores": {"test/loss": 0.5, "test/top1": 0.9}, "images": 30}')
    found = page(page_of_runs([collect(make_run()), collect(faster)]))
    check(found)
    assert "Comparison of 2 runs" in found.text
    assert "test top-1 accuracy 80.00 % 90.00 % (best)" in found.text
    assert "learning rate 0.001 0.01" in found.text and "weight decay" not in found.text
    alts = [image["alt"] for image in found.all("img")]
    assert any("pets/0 goes from 2 at step 1" in alt and "pets/1 goes" in alt for alt in alts)
