"""Colour words by what they look like: each is near one of the eleven basic colour terms, or near none.

RGB values are of the xkcd colour survey, in which people named the colours they saw; matplotlib brings it (CC0).
Distances are those of OKLab (Ottosson 2020), in which equal ones look alike. Word vectors do not know them: colours
occur in the same sentences whatever they look like.
"""

from __future__ import annotations

import re

import numpy as np

from rlstack.arrays import Array
from rlstack.libraries import import_library

BASIC = ("black", "white", "red", "green", "yellow", "blue", "brown", "orange", "pink", "purple", "grey")
"""Colour terms that every language with many of them has (Berlin and Kay 1969)."""

_LIGHTNESS = 0.5
"""Weight of differences in lightness: dark and light red are red."""
_NEAR, _APART = 0.14, 0.02
"""Largest distance from a basic colour, and least distance by which all others are further away, of OKLab."""
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_OPPONENTS = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def oklab(rgb: Array) -> Array:
    """Return OKLab lightness, red-green and yellow-blue (..., 3) of sRGB (..., 3), 0 to 1."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    found: Array = np.cbrt(linear @ _CONES.T) @ _OPPONENTS.T
    return found


def basic_colours() -> dict[str, str]:
    """Return the basic colour that each other colour word is near, empty where it is near none.

    Raises:
        UserError: matplotlib, which has the survey, is missing.
    """
    colours = import_library("matplotlib.colors", "words")
    survey = {name.removeprefix("xkcd:"): colours.to_rgb(value) for name, value in colours.XKCD_COLORS.items()}
    weight = np.array([_LIGHTNESS, 1.0, 1.0])
    basic = oklab(np.array([survey[name] for name in BASIC])) * weight
    found = {}
    for name, rgb in survey.items():
        if name in BASIC or not re.fullmatch("[a-z]+", name):
            continue
        away = np.linalg.norm(oklab(np.array(rgb)) * weight - basic, axis=1)
        first, second = np.argsort(away)[:2]
        clear = away[first] <= _NEAR and away[second] - away[first] >= _APART
        found[name] = BASIC[int(first)] if clear else ""
    return {**found, "gray": "grey"}
