"""A Franka arm, against franky-sim: what it says of itself against the robot file, its stops, its hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("franky")
pytest.importorskip("franky_sim")

from rlstack.errors import UserError
from rlstack.hardware.drivers.franka import FrankaArm
from rlstack.hardware.franka.attempt import Attempt
from rlstack.hardware.franka.modes import error_names, hindrance
from rlstack.hardware.serial_port import LinkLost
from rlstack.robots import load_robot
from tests.support.peers.franka import FrankaPeer
from tests.support.waiting import soon


@pytest.fixture
def peer() -> Iterator[FrankaPeer]:
    with FrankaPeer() as made:
        yield made


@pytest.fixture
def arm(peer: FrankaPeer) -> Iterator[FrankaArm]:
    made = FrankaArm(peer.robot, uri=peer.uri)
    made.connect()
    yield made
    made.close()


def commanded(arm: FrankaArm, targets: Any, until: Callable[[], object]) -> bool:
    """Send targets fifty times a second until something holds."""

    def sent() -> object:
        arm.write({"joint_target": np.array(targets)})
        time.sleep(0.02)
        return until()

    return soon(sent, 15.0)


def test_what_the_robot_file_or_uri_lacks_is_refused_before_anything_opens() -> None:
    with pytest.raises(UserError, match="seven joints"):
        FrankaArm(load_robot("ur5e"), uri="fci://127.0.0.1")
    panda = load_robot("panda")
    for uri, said in (
        ("fci://127.0.0.1:1337", "without a port"),
        ("fci://127.0.0.1?rate=5000", "rate=5000"),
        ("fci://127.0.0.1?gripper=soft", "must be fixed"),
    ):
        with pytest.raises(UserError, match=said):
            FrankaArm(panda, uri=uri)


def test_the_fr3s_file_is_that_of_the_arm_that_franky_sim_is(peer: FrankaPeer) -> None:
    peer.tell("fr3")
    arm = FrankaArm(load_robot("fr3"), uri=peer.uri)
    arm.connect()
    assert arm.read().signals["joint_position"][:7] == pytest.approx(peer.joints, abs=0.01)
    arm.close()


def test_a_target_leads_its_joint_by_no_more_than_its_drive_can_do(arm: FrankaArm, peer: FrankaPeer) -> None:
    began = peer.joints
    sent = arm.write({"joint_target": np.concatenate([began + 1.0, [0.04, 0.04]])})["joint_target"]
    ahead = sent[:7] - began
    drives = peer.robot.drives[:7]
    assert all(lead * drive.stiffness <= drive.effort_max + 0.1 for lead, drive in zip(ahead, drives))
    assert all(lead * drive.stiffness <= drive.velocity_max * drive.damping + 0.1 for lead, drive in zip(ahead, drives))
    assert ahead.min() > 0.04


def test_a_reflex_ends_the_motion_and_only_arming_anew_recovers_from_it(arm: FrankaArm, peer: FrankaPeer) -> None:
    rest = peer.rest()["joint_target"]
    assert commanded(arm, rest, lambda: peer.powered)
    peer.tell("reflex")
    assert soon(lambda: arm.trouble)
    assert "reflex" in arm.trouble and "joint_reflex" in arm.trouble and not arm.powered
    with pytest.raises(ValueError, match="joint_reflex"):
        arm.write({"joint_target": rest})
    arm.disarm()
    assert soon(lambda: not arm.trouble)
    assert not peer.powered
    assert commanded(arm, rest, lambda: peer.powered)


def test_the_user_stop_is_named_until_a_person_releases_it(arm: FrankaArm, peer: FrankaPeer) -> None:
    rest = peer.rest()["joint_target"]
    assert commanded(arm, rest, lambda: peer.powered)
    peer.tell("user_stop")
    assert soon(lambda: "user stop" in arm.trouble)
    arm.disarm()
    time.sleep(0.05)
    assert "user stop is pressed" in arm.trouble
    peer.tell("release")
    assert soon(lambda: not arm.trouble)
    assert commanded(arm, rest, lambda: peer.powered)


def test_a_link_lost_in_motion_is_found_again_and_the_arm_moves_only_once_armed_anew(
    arm: FrankaArm, peer: FrankaPeer
) -> None:
    rest = peer.rest()["joint_target"]
    assert commanded(arm, rest, lambda: peer.powered)
    peer.lose_link()
    assert soon(lambda: not peer.powered)
    time.sleep(1.3)  # libfranka gives up after a second
    lost_s = arm.read().time_s
    peer.regain_link()
    assert soon(lambda: arm.read().time_s > lost_s)
    assert soon(lambda: "communication_constraints_violation" in arm.trouble)
    arm.disarm()
    assert soon(lambda: not arm.trouble)
    assert commanded(arm, rest, lambda: peer.powered)


def test_the_hand_follows_the_fingers_targets(arm: FrankaArm, peer: FrankaPeer) -> None:
    rest = peer.rest()["joint_target"]
    closed = np.concatenate([rest[:7], [0.02, 0.02]])
    assert commanded(arm, closed, lambda: abs(peer.width - 0.04) < 0.004)
    assert soon(lambda: abs(arm.read().signals["joint_position"][7:] - 0.02).max() < 0.003)


def test_after_a_disarm_the_hand_begins_no_motion(arm: FrankaArm, peer: FrankaPeer) -> None:
    rest = peer.rest()["joint_target"]
    opened, closed = (np.concatenate([rest[:7], 2 * [half]]) for half in (0.04, 0.005))
    began = peer.width
    assert commanded(arm, closed, lambda: peer.width < began - 0.003), "under way"
    arm.write({"joint_target": opened})
    time.sleep(0.1)
    arm.disarm()
    assert soon(lambda: peer.width < 0.014)
    assert not soon(lambda: peer.width > 0.02, 0.7)


def test_modes_and_errors_are_told_in_words() -> None:
    assert hindrance("Idle", "") == hindrance("Move", "") == ""
    assert "user stop" in hindrance("UserStopped", "") and "not known" in hindrance("Dancing", "")
    assert error_names('["joint_reflex", "self_collision_avoidance_violation"]') == (
        "joint_reflex, self_collision_avoidance_violation"
    )
    assert error_names("[]") == ""
    assert hindrance("Idle", "joint_reflex") == "it reports an error (joint_reflex)"


def test_an_answer_that_does_not_come_is_waited_for_no_longer_than_said() -> None:
    def slow() -> int:
        time.sleep(0.3)
        return 7

    late = Attempt(slow)
    with pytest.raises(LinkLost, match=r"0\.01 s"):
        late.result(0.01)
    assert not late.done and late.result(5.0) == 7
    with pytest.raises(ZeroDivisionError):
        Attempt(lambda: 1 / 0).result(5.0)
