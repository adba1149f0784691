"""Plug-ins are imported where their names stand, and a class's failure to import is told with its flag."""

import sys
from importlib.metadata import EntryPoint

import pytest

from vit_lightning.cli import own_code, plugins
from vit_lightning.cli.arguments import CommandLine
from vit_lightning.errors import InputError


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Two packages of others that offer a datamodule, of which one is broken."""
    for package, text in (("first_pkg", "class Birds:\n    pass\n"), ("second_pkg", "raise OSError('no disk')\n")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        (tmp_path / package / "data.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    offered = [
        EntryPoint(name, f"{package}.data:{name}", plugins.DATAMODULES)
        for name, package in (("Birds", "first_pkg"), ("Bees", "second_pkg"))
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: offered if group == "vit_lightning.datamodules" else [])
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("first_pkg", "second_pkg")]:
        del sys.modules[name]


def test_packages_are_those_that_are_installed_for_us(theirs):
    assert plugins.plugin_packages() == {"first_pkg", "second_pkg"}
    assert {"Birds", "Bees", "Digits", "CIFAR10"} <= set(plugins.datamodule_names())
    assert plugins.datamodule_names() == sorted(plugins.datamodule_names())


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ("--data Birds", True),
        ("{'class_path': 'Birds'}", True),
        ("--data Birdsong", False),
        ("MyBirds", False),
        ("", False),
    ],
)
def test_a_plug_in_is_imported_where_its_whole_name_stands(theirs, text, loaded):
    plugins.load_plugins(text)
    assert ("first_pkg.data" in sys.modules) == loaded and "second_pkg.data" not in sys.modules


def test_a_broken_plug_in_is_a_warning_that_names_it(theirs):
    with pytest.warns(UserWarning, match=r"plug-in Bees \(second_pkg\.data:Bees\) fails to import: OSError: no disk"):
        plugins.load_plugins("--data Bees and Birds")
    assert "first_pkg.data" in sys.modules


@pytest.mark.parametrize(("name", "module"), [("Classifier", "classifier"), ("MaskedPatch", "masked_patch")])
def test_our_models_are_imported_by_their_names(monkeypatch, name, module):
    imported: list[str] = []
    monkeypatch.setattr(plugins, "import_module", imported.append)
    plugins.load_plugins(f"--model {name}")
    plugins.load_plugins("--model Own")
    assert imported == [f"vit_lightning.{module}"]


@pytest.mark.parametrize("name", [None, "", "Digits", "x.yaml", "a.b.yml", "x.json", "first_pkg.data.Birds"])
def test_short_names_files_and_what_can_be_imported_pass(theirs, name):
    for path in own_code.paths_in(name):
        own_code.import_class("--data", path)
    assert ("first_pkg.data" in sys.modules) == (name == "first_pkg.data.Birds")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such.X", "there is no module no_such; install it, or see PYTHONPATH"),
        ("first_pkg.none.X", "there is no module first_pkg.none; install it"),
        ("needy.X", "importing it fails: ModuleNotFoundError: No module named 'no_such_lib'"),
        ("second_pkg.data.Bees", "importing it fails: OSError: no disk"),
        ("abstract.Both", "lacks one and two, which every class of its kind defines"),
    ],
)
def test_why_a_class_cannot_be_had_is_said(theirs, tmp_path, name, said):
    (tmp_path / "needy.py").write_text("import no_such_lib\n")
    (tmp_path / "abstract.py").write_text(
        "from abc import ABC, abstractmethod\nclass Both(ABC):\n    two = abstractmethod(lambda self: 1)\n"
        "    one = abstractmethod(lambda self: 1)\n"
    )
    with pytest.raises(InputError) as told:
        own_code.import_class("--model", name)
    assert str(told.value).startswith(f"--model {name}") and said in str(told.value)


def test_help_is_refused_of_a_short_name_that_nobody_has(theirs):
    for words in (
        ["fit", "--data.help", "Birds"],
        ["fit", "--model.help", "Classifier"],
        ["fit", "--data.help", "my.Own"],
    ):
        plugins.check_help(CommandLine(words))
    for flag, name in (("data", "Classifier"), ("model", "Birds"), ("data", "Brids")):
        with pytest.raises(InputError, match=rf"^--{flag} {name}: "):
            plugins.check_help(CommandLine(["fit", f"--{flag}.help", name]))


class Base:
    def __init__(self, first: int, shared: int = 1) -> None:
        pass


class Middle(Base):
    pass


class Last(Middle):
    def __init__(self, own: str, shared: str = "x", **kwargs: int) -> None:
        pass


def test_parameters_are_those_of_all_constructors_and_the_last_one_wins():
    found = plugins.constructor_parameters(Last)
    assert {"self", "first", "shared", "own", "kwargs"} <= found.keys()
    assert found["shared"].default == "x" and found["shared"].annotation is str and found["first"].annotation is int


def test_flags_of_data_are_a_class_s_own_and_those_of_all():
    every, digits = plugins.data_flags(None), plugins.data_flags("VTAB")
    assert "data.batch_size" in every and "data.augment.flip" in every and "data.task" not in every
    assert {"data.task", *every} <= {*digits, "data.in_memory"} | {*every}
    assert "data.task" in digits and "data.batch_size" in digits
    assert not {"data.self", "data.kwargs", "data.args"} & {*every, *digits}


@pytest.mark.parametrize("flag", ["--data", "--data.help"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise OSError('no disk')\n", "OSError: no disk, in {file}, line 1"),
        ("x = 1\ny = (\n", "SyntaxError: '(' was never closed, in {file}, line 2"),
        ("import no_such_thing\n", "ModuleNotFoundError: No module named 'no_such_thing', in {file}, line 1"),
        ("", "AttributeError: module 'second_pkg.data' has no attribute 'Bees'"),
    ],
)
def test_a_plug_in_that_is_named_and_broken_is_told_with_its_line(theirs, tmp_path, flag, text, said):
    file = tmp_path / "second_pkg" / "data.py"
    file.write_text(text)
    with pytest.raises(InputError) as told:
        plugins.check_plugin(CommandLine(["fit", flag, "Bees"]))
    assert str(told.value) == f"plug-in Bees (second_pkg.data:Bees) fails to import: {said.format(file=file)}"


def test_the_help_of_a_name_of_two_plug_ins_asks_for_one(theirs, monkeypatch):
    twins = [
        EntryPoint("Birds", f"{package}.data:Birds", plugins.DATAMODULES) for package in ("first_pkg", "first_pkg")
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: twins)
    plugins.check_plugin(CommandLine(["fit", "--data.help", "Birds"]))  # installed twice, one class
    twins.append(EntryPoint("Birds", "datamodules.digits:Digits", plugins.DATAMODULES))
    plugins.check_plugin(CommandLine(["fit", "--data", "Birds"]))
    with pytest.raises(
        InputError, match=r"^--data\.help Birds: several .*; give one of datamodules.digits.Digits, first_"
    ):
        plugins.check_plugin(CommandLine(["fit", "--data.help", "Birds"]))


@pytest.mark.parametrize("flag", ["--data", "--data.class_path", "--data.help"])
def test_a_plug_in_whose_class_has_another_name_stands_for_its_class(monkeypatch, flag):
    offered = [EntryPoint("TeamDigits", "datamodules.digits:Digits", plugins.DATAMODULES)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: offered)
    line = CommandLine(["fit", flag, "TeamDigits", "--model", "TeamDigits"])
    plugins.take_class_of_plugin(line)
    assert line.words() == ["fit", f"{flag}=datamodules.digits.Digits", "--model=TeamDigits"]
    same = CommandLine(["fit", flag, "Digits"])
    plugins.take_class_of_plugin(same)
    assert same.value(flag) == "Digits"


def test_such_a_plug_in_is_taken_by_the_command_line_and_named_in_a_file(app, tmp_path, monkeypatch):
    offered = [EntryPoint("TeamSet", "datamodules.synthetic:Synthetic", plugins.DATAMODULES)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: offered)
    words = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--trainer.max_steps", 1)
    done = app("plan", "--data", "TeamSet", "--data.train_size", 16, "--data.batch_size", 8, *words)
    assert done.code == 0, done.err
    done = app("plan", "--data", "TeamSet", "--data.train_sise", 16)
    assert done.code == 1 and "no flag --data.train_sise; did you mean --data.train_size?" in done.err
    (tmp_path / "team.yaml").write_text("data: TeamSet\n")
    done = app("plan", "-c", tmp_path / "team.yaml")
    assert done.code == 1 and "did you mean" not in done.err
    assert "--data TeamSet: the class of this plug-in has another name; give its path" in done.err
