"""The robot of a node is the one that was checked, or none."""

from __future__ import annotations

import pytest

from rlstack.errors import UserError
from rlstack.nodes.robot_parameters import checked_robot
from rlstack.robots import load_robot


def test_a_digest_is_checked_only_if_there_is_one() -> None:
    known = load_robot("crazyflie").sha256
    for given in ("", known):
        assert checked_robot({"robot": "crazyflie", "robot_sha256": given}).name == "crazyflie"
    with pytest.raises(UserError, match="was replaced since it was checked"):
        checked_robot({"robot": "racer", "robot_sha256": known})
