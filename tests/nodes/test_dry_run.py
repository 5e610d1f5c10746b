"""A dry run takes commands as the robot would, and sends none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlstack.nodes.dry_run import DryRun
from rlstack.robots import load_robot


def test_it_shows_what_would_be_sent() -> None:
    dry = DryRun(load_robot("turtlebot3_burger"))
    assert dry.text == "off"
    assert dry.write({"twist": np.array([0.1, -0.00001])})["twist"].tolist() == [0.1, -0.00001]
    assert dry.text == "twist [0.1, 0]"
    dry.disarm()
    assert dry.text == "off"


@pytest.mark.parametrize(
    "command", [{"twist": np.array([math.nan, 0.0])}, {"twist": np.zeros(3)}, {"rates": np.zeros(2)}]
)
def test_what_the_robot_would_refuse_is_refused(command: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError):
        DryRun(load_robot("turtlebot3_burger")).write(command)
