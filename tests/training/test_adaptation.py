"""What the adaptation node keeps of a flight is enough for what looks at it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rosbags")

from rlstack.data.bags.bag import Bag
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.adapt import LEAST_WINDOW_S
from rlstack.policies.released import find_policy
from rlstack.training.adaptation import Adapter
from rlstack.training.adaptation_messages import Origin
from tests.identification.conftest import write_flight
from tests.kinds.quadrotor.test_identification import hovering


def test_the_shortest_flight_that_is_looked_at_tells_a_payload(tmp_path: Path) -> None:
    robot, seen = load_quadrotor("crazyflie"), hovering(LEAST_WINDOW_S)
    odom = seen.tracks["odom"]
    speeds = np.sqrt(1.3) * seen.tracks["cmd/rotors"].values["rotor_speed"]
    bag = write_flight(tmp_path / "bag", odom.time_s, odom.values, speeds, rotors=robot.rotor_names)
    with Bag(bag) as opened:
        messages = list(opened.messages())
    adapter = Adapter(Origin(str(find_policy("quadrotor_hover")), "", "crazyflie", "", "/crazyflie"), tmp_path)
    assert adapter.look(messages).sentence == "a payload of about 30% of the mass"
