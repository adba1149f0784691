"""What unlabelled images take from the net, from a class map, and from lists."""

from types import SimpleNamespace

from PIL import Image

from datamodules.images import Images


def test_the_net_says_how_large_images_are_where_nobody_else_does(tmp_path):
    Image.new("RGB", (9, 8)).save(tmp_path / "a.png")
    for given, size in ((None, (24, 40)), (16, 16)):
        data = Images("a.png", root=tmp_path, image_size=given)
        data.trainer = SimpleNamespace(lightning_module=SimpleNamespace(hparams=SimpleNamespace(image_size=(24, 40))))
        data.setup("predict")
        assert data.image_size == size


def test_a_class_map_names_the_nets_classes(tmp_path):
    (tmp_path / "names.txt").write_text("owl\ncat\n")
    assert Images("a.png", class_map=tmp_path / "names.txt").class_names == ["owl", "cat"]


def test_a_list_names_no_further_lists(tmp_path):
    """A text file in it is an image that cannot be read, and keeps its place."""
    Image.new("RGB", (9, 8)).save(tmp_path / "a.png")
    (tmp_path / "inner.txt").write_text("a.png\n")
    (tmp_path / "outer.txt").write_text("a.png\n  \ninner.txt\n")
    data = Images("outer.txt", root=tmp_path, image_size=8)
    data.setup("predict")
    assert list(data.test_set.keys) == ["a.png", "inner.txt"]
