"""What comes on the topics of teleoperation as a hand, and who leads; messages are stand-ins, and so is the clock."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.devices.spacemouse import LINGER_S
from rlstack.nodes import teleop_topics
from rlstack.nodes.teleop_topics import STALE_S, TopicDevice


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    held = Clock()
    monkeypatch.setattr(teleop_topics, "time", held)
    return held


@pytest.fixture
def device(clock: Clock) -> TopicDevice:
    return TopicDevice("/arm", SimpleNamespace(speed_m_s=0.4, yaw_rate_rad_s=1.5))


def twist(forward: float = 0.0, frame: str = "base_link") -> SimpleNamespace:
    header = SimpleNamespace(frame_id=frame)
    linear, angular = (SimpleNamespace(x=x, y=0.0, z=0.0) for x in (forward, 0.0))
    return SimpleNamespace(header=header, twist=SimpleNamespace(linear=linear, angular=angular))


def said(value: float | bool) -> SimpleNamespace:
    return SimpleNamespace(data=value)


def test_until_somebody_says_who_leads_whatever_moves_does_and_a_twist_of_zero_does_not(
    device: TopicDevice, clock: Clock
) -> None:
    assert not device.hand().intervene
    device.hear_gripper(said(0.0))
    device.hear_twist(twist())
    device.hear_gripper(said(0.0))
    assert not device.hand().intervene, "who stands still takes nothing over"
    device.hear_twist(twist(0.2))
    hand = device.hand()
    assert hand.intervene and hand.linear.tolist() == [0.5, 0.0, 0.0]
    clock.now += STALE_S - 0.01
    device.hear_twist(twist())
    assert device.hand().intervene, "it leads on for a moment"
    clock.now += LINGER_S
    device.hear_twist(twist())
    assert not device.hand().intervene
    device.hear_gripper(said(-1.0))
    assert device.hand().intervene and device.hand().gripper == -1.0
    clock.now += LINGER_S
    for _ in range(2):
        device.hear_twist(twist())
        device.hear_gripper(said(-1.0))
    assert not device.hand().intervene and device.hand().gripper == -1.0, "what goes on being told is no news"


def test_once_somebody_said_who_leads_that_decides(device: TopicDevice, clock: Clock) -> None:
    device.hear_intervene(said(False))
    device.hear_twist(twist(0.2))
    hand = device.hand()
    assert hand.idle and not hand.intervene
    device.hear_intervene(said(True))
    assert device.hand().intervene and not device.hand().idle
    clock.now += 10.0
    assert device.hand().intervene and device.hand().idle, "whoever has gone holds the arm"


def test_the_gripper_is_told_nothing_in_a_new_episode_until_something_else_is_said(device: TopicDevice) -> None:
    device.hear_gripper(said(-1.0))  # somebody's key of some time ago
    device.hear_twist(twist())
    device.hear_gripper(said(-1.0))
    assert device.hand().idle
    device.hear_gripper(said(1.0))
    assert device.hand().gripper == 1.0
    device.forget()
    device.hear_gripper(said(1.0))
    assert device.hand().gripper == 0.0
    for told in (-1.0, 1.0):
        device.hear_gripper(said(told))
        assert device.hand().gripper == told
    device.hear_gripper(said(float("nan")))
    assert device.hand().gripper == 1.0


def test_a_leader_arms_joints_are_a_hand_as_long_as_they_come(device: TopicDevice, clock: Clock) -> None:
    device.hear_twist(twist(0.2))
    device.hear_joints(SimpleNamespace(name=["a", "b"], position=[0.5, -1]))
    hand = device.hand()
    assert hand.intervene and hand.joints == {"a": 0.5, "b": -1.0} and not hand.linear.any()
    for bad in (SimpleNamespace(name=["a"], position=[np.nan]), SimpleNamespace(name=["a"], position=[])):
        device.hear_joints(bad)
        assert device.hand().joints == {"a": 0.5, "b": -1.0}
    clock.now += STALE_S
    assert device.hand().joints is None and device.hand().idle


def test_a_twist_is_of_the_arms_base_by_whichever_prefix(device: TopicDevice) -> None:
    device.hear_twist(twist(0.2, "panda/base_link"))
    assert device.hand().linear.tolist() == [0.5, 0.0, 0.0]
    device.hear_twist(twist(0.2, "panda/panda_hand"))
    with pytest.raises(UserError, match="in the frame 'panda/panda_hand': give it in base_link"):
        device.hand()
