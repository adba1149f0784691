import numpy as np
import pytest

from datamodules.vtab import labels


@pytest.mark.parametrize(
    ("depths", "expected"),
    [
        ([7.9, 12], 0),
        ([8.0], 0),
        ([8.01], 1),
        ([8.5], 1),
        ([9.0], 2),
        ([9.2, 9.6], 3),
        ([9.5], 3),
        ([9.51], 4),
        ([10.01], 5),
        ([8.51], 2),
        ([9.01], 3),
        ([10.0], 4),
        ([11], 5),
    ],
)
def test_clevr_distance_is_the_nearest_object_s(depths, expected):
    scene = {"objects": [{"pixel_coords": [200, 100, depth]} for depth in depths]}
    assert labels.clevr_distance(scene) == expected


def test_clevr_count_is_n_minus_3():
    assert [labels.clevr_count({"objects": [None] * count}) for count in range(3, 11)] == list(range(8))


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], 3),
        ([("Pedestrian", 3.0), ("Cyclist", 5.0), ("Tram", 6.0), ("DontCare", -1000.0)], 3),
        ([("Car", 8.0)], 0),
        ([("Van", 8.1), ("Car", 30.0)], 1),
        ([("Truck", 20.0)], 1),
        ([("Truck", 20.1), ("Person_sitting", 2.0)], 2),
        ([("Car", -1.5)], 0),
    ],
)
def test_kitti_distance_is_the_nearest_vehicle_s(objects, expected):
    assert labels.kitti_distance(objects) == expected


def test_sprites_are_grouped_by_16():
    latents = np.zeros((40, 6), dtype=np.int64)
    latents[:, 3] = np.arange(40)
    latents[:32, 4] = np.arange(32)
    assert labels.dsprites_location(latents)[:32].tolist() == [x // 2 for x in range(32)]
    assert labels.dsprites_orientation(latents).tolist() == [int(turn / 2.5) for turn in range(40)]


def test_smallnorb_angles():
    info = np.array([[7, elevation, azimuth, 3] for elevation in range(9) for azimuth in range(0, 36, 2)])
    assert set(labels.smallnorb_azimuth(info)) == set(range(18))
    assert labels.smallnorb_azimuth(info)[:3].tolist() == [0, 1, 2]
    assert set(labels.smallnorb_elevation(info)) == set(range(9))


def test_below_the_first_border_there_is_no_class():
    assert labels.band(0.0, labels.CLEVR_BANDS) == -1
