import pytest
from hypothesis import given
from hypothesis import strategies as st

from datamodules.vtab.dmlab import DMLAB
from datamodules.vtab.tfrecord import checked, crc32c, example, records
from tests.datamodules.conftest import field, tf_example, tfrecord
from vit_lightning.data import images
from vit_lightning.data.images import BrokenImage
from vit_lightning.errors import InputError


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_checksums_of_rfc_3720(data, expected):
    assert crc32c(data) == expected


@given(data=st.binary(min_size=4, max_size=3000))
def test_checksum_against_the_definition(bitwise_crc32c, data):
    assert crc32c(data) == bitwise_crc32c(data)


def test_dmlab(publish):
    root = publish("dmlab")
    held = DMLAB.open(root, "validation", allow_incomplete=True)
    assert held.labels.tolist() == [0, 1, 2, 3, 4, 5] * 2
    assert held.keys[7] == "validation_1_1.jpg"
    assert held[7] == ((root / "frame.jpg").read_bytes(), 1)


def test_each_frame_of_each_file_has_its_own_picture_label_and_name(tmp_path):
    for split in ("train", "test"):
        for shard, count in ((0, 3), (1, 2)):
            frames = [
                {"image": f"{split} {shard} {i}".encode() * (i + 1), "label": 2 * shard + i, "filename": b"%d.jpg" % i}
                for i in range(count)
            ]
            file = tmp_path / f"dmlab-{split}.tfrecord-0000{shard}-of-00002"
            file.write_bytes(b"".join(tfrecord(tf_example(frame)) for frame in frames))
    held = DMLAB.open(tmp_path, "train", allow_incomplete=True)
    assert list(held.keys) == ["0.jpg", "1.jpg", "2.jpg", "0.jpg", "1.jpg"]
    expected = [
        (b"train %d %d" % (shard, i) * (i + 1), 2 * shard + i) for shard, i in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))
    ]
    assert [held[number] for number in range(5)] == expected


def test_numbers_of_a_feature_may_stand_alone_or_be_packed():
    def message(values: bytes) -> bytes:
        return field(1, field(1, field(1, b"label") + field(2, field(3, values))))

    assert example(message(b"\x08\x03\x08\x05")) == {"label": [3, 5]}
    assert example(message(b"\x0a\x03\x07\xac\x02")) == {"label": [7, 300]}
    assert example(message(b"\x08\x03\x0a\x02\x07\x01\x08\x05")) == {"label": [3, 7, 1, 5]}


def test_damage_inside_a_record_is_found_when_it_is_read(publish):
    root = publish("dmlab")
    file = sorted(root.glob("dmlab-train.tfrecord*"))[0]
    data = bytearray(file.read_bytes())
    data[data.index(b"\xff\xda") + 50] ^= 1  # one bit of the first JPEG's pixels
    file.write_bytes(data)
    held = DMLAB.open(root, "train", allow_incomplete=True)
    with pytest.raises(BrokenImage, match=r"tfrecord-00000-of-00002 at byte 0: .*checksum"):
        held[0]
    assert images.load(held[1][0], name="frame").shape == (3, 12, 16)


@pytest.mark.parametrize("place", [3, 9])
def test_damage_between_records(publish, place):
    root = publish("dmlab")
    file = sorted(root.glob("dmlab-train.tfrecord*"))[1]
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match="is damaged at byte 0"):
        DMLAB.open(root, "train")


@pytest.mark.parametrize("missing", [1, 20])
def test_a_file_cut_short(publish, missing):
    root = publish("dmlab")
    file = sorted(root.glob("dmlab-train.tfrecord*"))[1]
    file.write_bytes(file.read_bytes()[:-missing])
    with pytest.raises(InputError, match="cut short after byte"):
        DMLAB.open(root, "train")


def test_kit_dmlab(kit):
    for split in ("train", "validation", "test"):
        held = DMLAB.open(kit / "vtab-layouts" / "real", split, allow_incomplete=True)
        assert len(held) == 2
        assert all(key.startswith("video_") for key in held.keys)
        for number in range(2):
            image, label = held[number]
            assert images.load(image, name="frame").shape == (3, 360, 480)
            assert 0 <= label < 6


def test_kit_pets_record_of_another_writer(kit):
    file = kit / "vtab-layouts" / "real" / "oxford-iiit-pet-tfrecord" / "pets_examples.record"
    found = [example(checked(file, start)) for start, _ in records(file)]
    assert len(found) == 10
    for features in found:
        (height,), (width,) = features["image/height"], features["image/width"]
        pixels = images.load(features["image/encoded"][0], name="pet")
        assert pixels.shape == (3, height, width)
