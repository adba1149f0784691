"""Whether a checkpoint was written to its end."""

import zipfile

import torch

from vit_lightning.runs.checkpoint_names import is_whole


def test_a_checkpoint_damaged_inside_is_not_whole(tmp_path):
    path = tmp_path / "a.ckpt"
    torch.save({"weights": torch.ones(5000)}, path)
    assert is_whole(path)
    content = bytearray(path.read_bytes())
    for place in range(1000, len(content) - 2000, 997):  # where the weights lie
        path.write_bytes(content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :])
        assert zipfile.is_zipfile(path) and not is_whole(path)
    middle = len(content) // 2
    path.write_bytes(content[:middle] + b"\0" * 100 + content[middle + 100 :])
    assert zipfile.is_zipfile(path) and not is_whole(path)
    assert not is_whole(tmp_path / "none") and not is_whole(tmp_path)
