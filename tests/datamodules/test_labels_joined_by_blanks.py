"""A label whose words are classes as well may hold several labels: every reader of text says so."""

import pytest

from tests.datamodules.test_labels import READERS, read, root, shown  # noqa: F401  # root is a fixture


def said(data) -> list[str]:
    return [text for text in data.notices if "each of its words is a class as well" in text]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("label", ["cat dog", "dog and cat"])
def test_a_label_whose_words_are_classes(root, reader, label):  # noqa: F811
    data = read(root, reader, train=["cat", "dog", label])
    (notice,) = said(data)
    assert f"the label {label!r} is read as one class" in notice and "--data.multi_label true" in notice
    assert shown(data, 3) == [{"cat"}, {"dog"}, {label}]
    (root / "names.txt").write_text(f"cat\ndog\n{label}\n")
    assert not said(read(root, reader, train=["cat", "dog", label], class_map=root / "names.txt"))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("label", ["hot dog", "cat_dog", "cat cat"])
def test_other_labels_of_several_words(root, reader, label):  # noqa: F811
    assert not said(read(root, reader, train=["cat", "dog", label]))
