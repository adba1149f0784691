"""The one table of layouts, and the verbs that offer them."""

from inspect import get_annotations
from typing import get_args

from vit_lightning.commands.convert import convert
from vit_lightning.commands.export import export
from vit_lightning.weights.layouts import LAYOUTS

PROGRAMS = {"onnx", "torch_export"}
"""What export writes that no layout of weights is."""


def test_verbs_offer_the_layouts_of_the_table():
    converted, exported = (set(get_args(get_annotations(verb)["to"])) for verb in (convert, export))
    assert converted | exported - PROGRAMS == LAYOUTS.keys()
