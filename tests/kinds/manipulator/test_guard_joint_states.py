"""Joint states as an arm's guard reads them: by name in any order; with a joint missing they are none."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.interfaces import topics
from rlstack.interfaces.kind_signals import element_names
from rlstack.interfaces.messages import JointMessage
from rlstack.interfaces.signal_reader import SignalReader
from rlstack.interfaces.signals import SENSED
from rlstack.kinds.manipulator.guard import ManipulatorGuard
from tests.kinds.manipulator.guard_loop import panda

serialization = pytest.importorskip("rclpy.serialization")

NAMES = element_names(panda())["joints"]
POSITION = np.linspace(-0.1, 0.1, len(NAMES))
READ = SignalReader(
    topics.type_of(topics.JOINT_STATES),
    {name: SENSED[name].field for name in ManipulatorGuard.OBSERVED},
    dict.fromkeys(ManipulatorGuard.OBSERVED, NAMES),
)


def message(names: list[str]) -> bytes:
    at = dict(zip(NAMES, POSITION))
    joints = JointMessage(topics.type_of(topics.JOINT_STATES)(), names)
    position = np.array([at.get(name, 9.0) for name in names])
    return serialization.serialize_message(joints.fill(7, position, 2.0 * position))


def test_joints_go_by_name_in_every_order() -> None:
    for names in (list(NAMES), list(NAMES)[::-1], [*NAMES[3:], *NAMES[:3]]):
        stamp, seen = READ(message(names))
        assert stamp == 7
        np.testing.assert_array_equal(seen["joint_position"], POSITION)
        np.testing.assert_array_equal(seen["joint_velocity"], 2.0 * POSITION)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (list(NAMES[1:]), f"missing: {NAMES[0]}"),
        ([*NAMES[1:], "elbow"], f"missing: {NAMES[0]}; unknown: elbow"),
        ([*NAMES[1:], NAMES[1]], f"missing: {NAMES[0]}"),
    ],
)
def test_a_joint_that_is_missing_or_unknown_is_named(names: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        READ(message(names))
