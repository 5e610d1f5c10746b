"""A robot on the topics: its file and its backend agree on the command."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.robot_topics import RobotTopics


def test_a_backend_that_does_not_take_the_robot_files_command_is_refused() -> None:
    node: Any = SimpleNamespace(parameters={"frame_prefix": ""})
    driver: Any = SimpleNamespace(robot=load_quadrotor("racer"), commanded=("rates_thrust",))
    with pytest.raises(UserError, match=r"racer takes the command rotor_speed by its file, but .* takes rates_thrust"):
        RobotTopics(node, driver, "", lambda robot, stamp: True, lambda robot, sent: None)
