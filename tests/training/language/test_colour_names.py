"""Colour words by what they look like."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.training.language.colour_names import BASIC, basic_colours, oklab

pytest.importorskip("matplotlib")


def test_oklab_has_its_authors_values() -> None:
    # of the author's table of CIE XYZ, and of white, whose lightness is 1
    assert np.allclose(oklab(np.array([1.0, 1.0, 1.0])), [1.0, 0.0, 0.0], atol=1e-3)
    assert np.allclose(oklab(np.array([1.0, 0.0, 0.0])), [0.628, 0.225, 0.126], atol=1e-3)


def test_colours_are_placed_by_their_looks_or_not_at_all() -> None:
    near = basic_colours()
    wanted = {"scarlet": "red", "azure": "blue", "emerald": "green", "gold": "yellow", "violet": "purple"}
    assert {name: near[name] for name in wanted} == wanted
    assert near["teal"] != "blue" and not {*BASIC} & {*near} and {*near.values()} <= {*BASIC, ""}
