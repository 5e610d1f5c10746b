"""A hand shows it: when an episode begins, what a leader arm makes the tool do, and who leads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from rlstack.demonstrations import metadata
from rlstack.demonstrations.recording import Choice
from rlstack.demonstrations.teleoperation import Teleoperator
from rlstack.errors import UserError
from rlstack.hardware.devices import SAVE, TeleopInput
from rlstack.hardware.devices._pad import Pad
from rlstack.kinds.manipulator.spec import load_manipulator
from rlstack.tasks.manipulator.demonstration import DemonstrationEnvironment

PANDA = load_manipulator("panda")
NAMES = [drive.name for drive in PANDA.drives]


@pytest.fixture(scope="module")
def picking() -> Iterator[DemonstrationEnvironment]:
    station = DemonstrationEnvironment(
        metadata.task_called("arm_pick_place", {"rewards": "sparse", "episode_s": 30.0}), PANDA
    )
    yield station
    station.close()


@dataclass
class Held:
    """A device that says what it is told to."""

    hand: TeleopInput = field(default_factory=TeleopInput)
    live = False

    def read(self) -> TeleopInput:
        return self.hand


@dataclass
class HeldPad:
    """A gamepad that leads, without its wire."""

    pad: Pad = field(default_factory=Pad)
    axes: tuple[float, ...] = (0.0,) * 8
    buttons: tuple[int, ...] = ()
    said: tuple[str, ...] = ()
    live = False

    def read(self) -> TeleopInput:
        hand = self.pad.input(self.axes, self.buttons)
        return TeleopInput(hand.linear, hand.angular, hand.gripper, events=self.said)

    def forget(self) -> None:
        self.pad.forget()


def test_what_the_gripper_was_told_does_not_begin_the_next_episode(picking: DemonstrationEnvironment) -> None:
    picking.begin()
    device = HeldPad()
    decide = Teleoperator(device)
    assert decide(picking).waiting
    device.buttons = (1,)
    choice = decide(picking)
    assert not choice.waiting and choice.action[-1] == -1.0, "a change of what the gripper is told is a beginning"
    picking.act(choice.action)
    device.buttons = ()
    assert decide(picking).action[-1] == -1.0, "it is told until it is told something else"
    device.said = (SAVE,)
    assert decide(picking).said == SAVE
    device.said = ()
    picking.begin()
    assert [decide(picking).waiting for _ in range(3)] == [True] * 3, "no hand has done anything yet"
    device.axes = (0.0, 1.0, *(0.0,) * 6)
    choice = decide(picking)
    assert choice.action.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0] and not choice.waiting
    picking.act(choice.action)
    device.buttons = (1,)
    assert decide(picking).action[-1] == -1.0, "told the same as in the episode before, it closes again"


def _joints(station: DemonstrationEnvironment) -> dict[str, float]:
    return dict(zip(NAMES, station.senses()["target"].tolist()))


def test_an_episode_begins_when_a_leader_arm_is_moved_and_the_tool_follows(picking: DemonstrationEnvironment) -> None:
    picking.begin()
    stood = _joints(picking)
    device = Held(TeleopInput(joints=stood))
    decide = Teleoperator(device)
    device.hand = TeleopInput(joints={**stood, "panda_joint1": stood["panda_joint1"] + 0.003})  # two ticks of a servo
    decide(picking)
    device.hand = TeleopInput(joints=stood)
    assert all(decide(picking).waiting for _ in range(3)), "where it stands it begins nothing"
    led = {**stood, "panda_joint1": stood["panda_joint1"] + 0.3}
    led |= {name: 0.01 for name in NAMES[7:]}
    device.hand = TeleopInput(joints=led)
    there = picking.positions()["tool"]
    turned = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]]) @ there[:2]
    first = decide(picking)
    assert not first.waiting and first.by_hand and np.abs(first.action).max() == 1.0
    picking.act(first.action)
    for _ in range(40):
        choice = decide(picking)
        assert not choice.waiting and np.abs(choice.action).max() <= 1.0
        picking.act(choice.action)
    assert np.abs(choice.action).max() < 0.1, "it has arrived"
    np.testing.assert_allclose(picking.positions()["tool"], [*turned, there[2]], atol=0.01)
    np.testing.assert_allclose(picking.positions()["joints"][7:], 0.01, atol=0.002)
    yaw = picking.senses()["target_yaw"]
    assert decide(picking).action[3] == pytest.approx(0.0, abs=0.05), f"turned by as much: {yaw}"


def test_a_leader_arm_takes_over_from_who_else_acts_once_it_is_moved(picking: DemonstrationEnvironment) -> None:
    picking.begin()
    stood = _joints(picking)
    device = Held(TeleopInput(joints=stood))
    decide = Teleoperator(device, lambda station: Choice(np.full(5, 0.5)))
    for _ in range(2):
        choice = decide(picking)
        assert not choice.by_hand
        picking.act(choice.action)
    device.hand = TeleopInput(joints={**stood, "panda_joint4": stood["panda_joint4"] + 0.1})
    assert decide(picking).by_hand and decide(picking).by_hand
    device.hand = TeleopInput(joints=device.hand.joints, intervene=False)
    assert not decide(picking).by_hand
    picking.begin()
    device.hand = TeleopInput(joints=device.hand.joints)
    assert not decide(picking).by_hand, "another episode: it has to be moved again"


def test_a_leader_arm_that_does_not_fit_is_refused_before_anything_moves(picking: DemonstrationEnvironment) -> None:
    picking.begin()
    with pytest.raises(UserError, match="cannot be followed: panda has no joint elbow; it has: panda_joint1"):
        Teleoperator(Held(TeleopInput(joints={"elbow": 0.0})))(picking)


def test_a_leader_arm_that_is_beyond_the_joints_ranges_is_followed_up_to_them(
    picking: DemonstrationEnvironment,
) -> None:
    picking.begin()
    said: list[str] = []
    device = Held(TeleopInput(joints={"panda_joint1": 0.0}))
    decide = Teleoperator(device, say=said.append)
    assert decide(picking).waiting
    device.hand = TeleopInput(joints={"panda_joint1": 3.0})
    assert not decide(picking).waiting
    assert "panda_joint1 is kept at its limit, 2.897: 3 was requested." in said
