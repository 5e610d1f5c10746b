from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstack.nodes.view_hand import _turn, tool_link
from rlstack.robots import frames

ANGLES = st.floats(-3.0, 3.0)


@given(ANGLES, ANGLES, ANGLES)
def test_a_turn_leads_from_one_orientation_to_the_other(roll: float, pitch: float, yaw: float) -> None:
    now, wanted = (frames.from_rotation_vector(v) for v in ([roll, 0.2, yaw], [0.3, pitch, -yaw]))
    vector = _turn(now, wanted)
    angle = float(np.linalg.norm(vector))
    assert angle <= np.pi + 1e-9
    axis = vector / angle if angle > 1e-9 else np.zeros(3)
    turned = frames.multiply(np.array([*(np.sin(0.5 * angle) * axis), np.cos(0.5 * angle)]), now)
    assert abs(float(turned @ wanted)) == pytest.approx(1.0, abs=1e-6)


def test_arms_have_a_tool_and_others_none() -> None:
    assert tool_link("panda") == "panda_grasptarget"
    assert tool_link("crazyflie") == tool_link("no_such_robot") == ""
