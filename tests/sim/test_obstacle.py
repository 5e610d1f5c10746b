from __future__ import annotations

import math

import pytest

from rlstack import schema
from rlstack.errors import UserError
from rlstack.sim.obstacle import Obstacle

GOOD = {"name": "crate_1", "shape": "box", "size_m": [1.0, 2.0, 0.5], "position_m": [1.0, 0.0, 0.25]}


def test_a_plain_mapping_becomes_an_obstacle() -> None:
    crate = schema.load(Obstacle, GOOD, "world.yaml")
    assert crate.size_m == (1.0, 2.0, 0.5) and crate.mass_kg == 0.0 and crate.yaw_rad == 0.0
    assert (crate.lowest_m, crate.highest_m) == (0.0, 0.5)
    assert crate.reach_m == (0.5, 1.0)


def test_the_reach_of_a_turned_box_is_that_of_the_upright_box_around_it() -> None:
    quarter = schema.load(Obstacle, {**GOOD, "yaw_rad": math.pi / 2}, "")
    assert quarter.reach_m == pytest.approx((1.0, 0.5))
    eighth = schema.load(Obstacle, {**GOOD, "yaw_rad": math.pi / 4}, "")
    assert eighth.reach_m == pytest.approx((1.5 / math.sqrt(2),) * 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shape": "cone"}, r"world.yaml: shape: 'cone' is not allowed: one of box, cylinder, sphere"),
        ({"size_m": [1.0, 0.0, 1.0]}, r"size_m: 0.0 is not allowed: must be above 0.0 m"),
        ({"size_m": [1.0, 1.0]}, r"size_m: \[1.0, 1.0\] is not allowed: must be a list of 3"),
        ({"shape": "cylinder"}, r"size_m: \[1.0, 2.0, 0.5\] .* a cylinder's are diameter, diameter, height"),
        ({"shape": "sphere"}, r"size_m: \[1.0, 2.0, 0.5\] .* a sphere's three must be equal"),
        ({"name": "my crate"}, r"name: 'my crate' is not allowed"),
        ({"mass_kg": -1.0}, r"mass_kg: -1.0 is not allowed: must be at least 0.0 kg"),
        ({"colour": [0.5, 0.5, 255]}, r"colour: 255.0 is not allowed: must be at most 1.0"),
        ({"radius_m": 1.0}, r"Unknown key 'radius_m'"),
    ],
)
def test_what_no_obstacle_can_be_is_refused(change: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        schema.load(Obstacle, {**GOOD, **change}, "world.yaml")
