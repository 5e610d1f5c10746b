"""RTDE's packages, whole and broken."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest

from rlstack.hardware.serial_port import LinkLost
from rlstack.hardware.ur.client_interface import configuration_in
from rlstack.hardware.ur.rtde import DATA, Packages, Recipe, package


def test_packages_come_whole_however_they_are_cut() -> None:
    stream = package(DATA, b"\x01abc") + package(ord("S"), b"\x01") + package(DATA, b"\x01")
    packages = Packages()
    found = [one for k in range(len(stream)) for one in packages.feed(stream[k : k + 1])]
    assert found == [(DATA, b"\x01abc"), (ord("S"), b"\x01"), (DATA, b"\x01")]


def test_a_recipe_names_what_the_controller_does_not_have() -> None:
    with pytest.raises(ValueError, match="no field b"):
        Recipe(["a", "b"], b"\x01DOUBLE,NOT_FOUND")
    with pytest.raises(LinkLost):
        Recipe(["a", "b"], b"\x01DOUBLE")
    recipe = Recipe(["a", "b"], b"\x01DOUBLE,VECTOR3D")
    assert recipe.decode(b"\x01" + struct.pack(">4d", 1, 2, 3, 4)) == {"a": 1.0, "b": (2.0, 3.0, 4.0)}
    for wrong in (b"\x02" + bytes(32), b"\x01" + bytes(31), b"\x01" + struct.pack(">4d", 1, 2, float("nan"), 4)):
        with pytest.raises(LinkLost):
            recipe.decode(wrong)


def test_noise_is_a_lost_link_and_nothing_else() -> None:
    chance = random.Random(1)
    recipe = Recipe(["a"], b"\x01DOUBLE")
    for _ in range(3000):
        data = chance.randbytes(chance.randint(1, 60))
        for read in (
            lambda data=data: [recipe.decode(carried) for _, carried in Packages().feed(data)],
            lambda data=data: configuration_in(data),
        ):
            with contextlib.suppress(LinkLost):
                assert not read()
