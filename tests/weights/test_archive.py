"""Files are opened by what they hold, whatever they are called, and nothing in them is run."""

import json
import pickle
import zipfile
from argparse import Namespace

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

from vit_lightning.errors import InputError
from vit_lightning.weights.archive import FOLDER_FILES, archive_of, open_archive

TENSORS = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.tensor([1, 2]), "c": torch.ones(2, dtype=torch.bfloat16)}


def as_npz(tensors, file):
    with file.open("wb") as out:
        np.savez(out, **{name: tensor.numpy() for name, tensor in tensors.items() if tensor.dtype != torch.bfloat16})


def as_old_torch(content, file):
    torch.save(content, file, _use_new_zipfile_serialization=False)


WRITERS = {"safetensors": save_file, "npz": as_npz, "torch": torch.save, "old torch": as_old_torch}


@pytest.mark.parametrize("name", ["x", "x.npz", "x.safetensors", "x.pth", "ü.bin"])
@pytest.mark.parametrize("format", WRITERS)
def test_the_content_decides_about_the_format_and_floats_come_in_float32(tmp_path, format, name):
    WRITERS[format](TENSORS, tmp_path / name)
    archive = open_archive(tmp_path / name)
    held = {key: tensor for key, tensor in TENSORS.items() if format != "npz" or key != "c"}
    assert archive.path == tmp_path / name and archive.stored.keys() == held.keys()
    assert (archive.facts, archive.dropped, archive.notes) == ({}, {}, [])
    for key, tensor in held.items():
        stored = archive.stored[key]
        assert stored.shape == tuple(tensor.shape)
        for read in filter(None, (stored.read, stored.glance)):
            found = read()
            assert found.dtype == (torch.float32 if tensor.is_floating_point() else torch.int64)
            assert torch.equal(found, tensor.to(found.dtype))
        assert stored.dtype == (tensor.dtype if "torch" in format else None)
        assert (stored.glance is None) == (format != "safetensors")


def test_halves_of_numpy_and_of_a_type_that_it_lacks(tmp_path):
    numbers = torch.tensor([1.0, -2.5, 3e38, 1e-30]).bfloat16()
    with (tmp_path / "x").open("wb") as out:
        np.savez(out, h=np.float16([0.5, 2]), v=numbers.view(torch.int16).numpy().view("V2"))
    stored = open_archive(tmp_path / "x").stored
    assert torch.equal(stored["v"].read(), numbers.float())
    assert torch.equal(stored["h"].read(), torch.tensor([0.5, 2.0]))


def test_arrays_with_a_long_header_are_read(tmp_path):
    """The second version of numpy's header, in a file beside one of the first."""
    with zipfile.ZipFile(tmp_path / "x", "w") as out:
        for name, version in (("a.npy", (2, 0)), ("b.npy", (1, 0))):
            with out.open(name, "w") as file:
                np.lib.format.write_array(file, np.float32([[1, 2, 3]]), version=version)
    stored = open_archive(tmp_path / "x").stored
    assert {name: (one.shape, one.read().tolist()) for name, one in stored.items()} == {
        name: ((1, 3), [[1.0, 2.0, 3.0]]) for name in "ab"
    }


class Harmful:
    def __reduce__(self):
        return (exec, ("raise SystemExit('it was run')",))


@pytest.mark.parametrize("writer", [torch.save, as_old_torch])
def test_objects_are_never_made(tmp_path, writer):
    writer({"a": torch.ones(1), "b": Harmful()}, tmp_path / "x")
    with pytest.raises(InputError, match=r"x holds Python objects, which only running its code could read"):
        open_archive(tmp_path / "x")


def test_arrays_of_objects_and_pickles_are_never_made(tmp_path):
    with (tmp_path / "x").open("wb") as out:
        np.savez(out, a=np.array([Harmful()], dtype=object))
    with pytest.raises(InputError, match="holds Python objects"):
        open_archive(tmp_path / "x")
    (tmp_path / "y").write_bytes(pickle.dumps({"a": Harmful()}))
    with pytest.raises(InputError):
        open_archive(tmp_path / "y")


def test_the_arguments_of_a_training_are_plain_values(tmp_path):
    torch.save({"model": TENSORS, "args": Namespace(lr=1.0)}, tmp_path / "x")
    assert open_archive(tmp_path / "x").stored.keys() == TENSORS.keys()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1, 2], "holds a list in place of named tensors: save a state_dict"),
        ({"a": 1, "b": {"c": 2}}, "holds no tensors"),
        ({}, "holds no tensors"),
    ],
)
def test_other_values_are_no_weights(tmp_path, content, said):
    torch.save(content, tmp_path / "x")
    with pytest.raises(InputError, match=said):
        open_archive(tmp_path / "x")


@pytest.mark.parametrize("content", [b"", b"short", b"GIF89a and so on", b"\x00" * 8 + b"[", b"<" * 20])
def test_other_files_are_no_weights(tmp_path, content):
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(InputError, match="is neither safetensors nor npz nor a torch file"):
        open_archive(tmp_path / "x.pth")


@pytest.mark.parametrize("format", WRITERS)
def test_a_file_that_was_cut_is_one_sentence(tmp_path, format):
    WRITERS[format](TENSORS, tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(content[: len(content) * 3 // 4])
    with pytest.raises(InputError, match=r"x (cannot be read \(|is damaged)") as told:
        {name: one.read() for name, one in open_archive(tmp_path / "x").stored.items()}
    assert "\n" not in str(told.value) and len(str(told.value)) < 300 + len(str(tmp_path))


def test_a_flipped_number_of_a_torch_file_is_noticed(tmp_path):
    torch.save({"a": torch.full((64,), 1.5)}, tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    value = torch.full((64,), 1.5).numpy().tobytes()
    place = content.index(value)
    (tmp_path / "x").write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    with pytest.raises(InputError, match="is damaged: it does not hold what was written"):
        open_archive(tmp_path / "x")


# Folders -------------------------------------------------------------------------------------------------------------


def test_a_folder_s_first_file_counts(tmp_path):
    """Of safetensors and a pickle of the same net, whole or in parts, the safer one."""
    for number, name in reversed([*enumerate(FOLDER_FILES)]):
        if name.endswith(".json"):
            part = f"part{number}"
            (tmp_path / name).write_text(json.dumps({"weight_map": {"a": part}}))
            name = part
        (save_file if "safetensors" in name or number == 1 else torch.save)(
            {"a": torch.tensor([float(number)])}, tmp_path / name
        )
        archive = open_archive(tmp_path)
        assert archive.stored["a"].read().item() == number
    assert list(FOLDER_FILES) == [
        "model.safetensors",
        "model.safetensors.index.json",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
    ]


def test_parts_are_put_together_and_none_may_lie_outside(tmp_path):
    (tmp_path / "net").mkdir()
    for part, name in (("one", "a"), ("two", "b")):
        save_file({name: torch.full((1,), float(ord(name)))}, tmp_path / "net" / part)
    index = tmp_path / "net" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere/one", "b": "two"}}))
    archive = open_archive(tmp_path / "net")
    assert archive.path == tmp_path / "net"
    assert {name: one.read().item() for name, one in archive.stored.items()} == {"a": 97, "b": 98}
    index.write_text("[1]")
    with pytest.raises(InputError, match=r"index\.json holds no JSON object"):
        open_archive(tmp_path / "net")
    index.write_text("{}")
    with pytest.raises(InputError, match="cannot be read"):
        open_archive(tmp_path / "net")


def test_other_folders_are_no_weights(tmp_path):
    with pytest.raises(InputError, match=r"holds none of model\.safetensors, .*: name the weights file itself"):
        open_archive(tmp_path)
    (tmp_path / ".metadata").touch()
    with pytest.raises(InputError, match="a sharded checkpoint that was not written to its end"):
        open_archive(tmp_path)


def test_json_lies_beside_a_file_or_in_a_folder(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"é": 1}', encoding="utf-8")
    for place in (tmp_path, tmp_path / "model.safetensors"):
        assert open_archive(place).json("config.json") == {"é": 1}
        assert open_archive(place).json("none.json") == {}
    for damaged in (b"[]", b"{", b'{"\xff": 1}'):
        (tmp_path / "config.json").write_bytes(damaged)
        with pytest.raises(InputError, match=r"config\.json"):
            open_archive(tmp_path).json("config.json")


# Two nets, facts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("nested", [True, False])
def test_of_two_nets_one_is_taken_and_said(tmp_path, raw, nested):
    model, ema = {"w": torch.zeros(1)}, {"w": torch.ones(1)}
    joined = {f"{part}.{name}": one for part, net in (("model", model), ("ema", ema)) for name, one in net.items()}
    torch.save({"model": model, "ema": ema} if nested else joined, tmp_path / "x")
    archive = open_archive(tmp_path / "x", raw)
    assert [one.read().item() for one in archive.stored.values()] == [float(not raw)]
    assert len(archive.notes) == 1 and archive.notes[0].startswith("model" if raw else "ema")
    assert archive.dropped.keys() == (set() if nested else {"ema.w" if raw else "model.w"})


def test_raw_weights_of_a_file_with_one_net_are_refused(tmp_path):
    torch.save(TENSORS, tmp_path / "x")
    with pytest.raises(InputError, match="holds no averaged weights, so none of its weights are the raw ones"):
        open_archive(tmp_path / "x", raw=True)


def test_raw_weights_of_a_folder_are_those_of_its_file(tmp_path):
    torch.save({"model": {"w": torch.zeros(1)}, "ema": {"w": torch.ones(1)}}, tmp_path / "pytorch_model.bin")
    assert open_archive(tmp_path, raw=True).stored["w"].read().item() == 0


def test_facts_are_those_of_our_own_files(tmp_path):
    content = {"state_dict": {"w": torch.ones(1)}, "hyper_parameters": {"loss": "softmax"}, "global_step": 3}
    archive = archive_of(tmp_path, content)
    assert archive.facts is content and archive.stored.keys() == {"w"}
    assert archive_of(tmp_path, {"state_dict": {"w": torch.ones(1), 3: torch.ones(1), "n": 1}}).facts == {}
    save_file({"w": torch.ones(1)}, tmp_path / "x", {"vit_lightning": '{"mean": [1]}', "format": "pt"})
    assert open_archive(tmp_path / "x").facts == {"mean": [1]}


def test_a_checkpoint_of_ours_is_looked_through_at_once(tmp_path):
    damaged = {"state_dict": {"w": torch.ones(1), "x": 3}, "hyper_parameters": {"net": {}}}
    with pytest.raises(InputError, match="is damaged"):
        archive_of(tmp_path, damaged)
    assert archive_of(tmp_path, damaged | {"hyper_parameters": {"other": 1}}).stored.keys() == {"w"}


@pytest.mark.parametrize("raw", [False, True])
def test_a_sharded_checkpoint_is_opened_with_its_facts_and_its_average(tmp_path, raw):
    trained, average = {"net.w": torch.zeros(1)}, {"net.w": torch.ones(1)}
    dcp.save({"state_dict": average | {"current_model_state": trained}}, checkpoint_id=tmp_path, no_dist=True)
    torch.save({"hyper_parameters": {"loss": "softmax"}, "global_step": 7}, tmp_path / "meta.pt")
    archive = open_archive(tmp_path, raw)
    assert {name: one.read().item() for name, one in archive.stored.items()} == {"net.w": float(not raw)}
    assert archive.facts["global_step"] == 7 and archive.path == tmp_path and len(archive.notes) == 1


def test_the_folder_of_an_experiment_names_its_newest_run(tmp_path):
    for number in range(2):
        (tmp_path / f"grey/{number}/checkpoints").mkdir(parents=True)
    with pytest.raises(
        InputError, match=r"grey: the folder of an experiment, whose newest run is .*/grey/1; give a run"
    ):
        open_archive(tmp_path / "grey")
