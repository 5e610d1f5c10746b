"""Servo arms against emulated buses: what is refused before anything moves, what moves how, and what ends it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.drivers.dynamixel import DynamixelArm
from rlstack.hardware.drivers.feetech import FeetechArm
from rlstack.interfaces.backend import Monitored
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from tests.support.peers import dynamixel as dxl
from tests.support.peers import feetech as sts
from tests.support.peers.dynamixel import DynamixelPeer
from tests.support.peers.feetech import FeetechPeer, Sts3215
from tests.support.waiting import soon

SO100 = Manipulator.load("so100")
NAMES = [joint.name for joint in SO100.drives]


@pytest.fixture
def peer() -> Iterator[FeetechPeer]:
    pytest.importorskip("scservo_sdk")
    with FeetechPeer() as made:
        yield made


@pytest.fixture
def arm(peer: FeetechPeer) -> Iterator[FeetechArm]:
    made = FeetechArm(SO100, uri=peer.uri)
    made.connect()
    yield made
    made.close()


def refused(peer: Any, kind: type = FeetechArm) -> str:
    """Return why the driver does not connect; nothing was powered."""
    arm = kind(SO100, uri=peer.uri)
    with pytest.raises(UserError) as caught:
        arm.connect()
    assert not peer.powered
    return str(caught.value)


def recalibrated(peer: FeetechPeer, **changes: dict[str, int]) -> str:
    """Return a URI with a calibration file that was changed."""
    file = json.loads(Path(peer.calibration).read_text())
    for name, change in changes.items():
        file[name] |= change
    path = Path(peer.calibration).with_name("changed.json")
    path.write_text(json.dumps(file))
    return peer.uri.replace(str(peer.calibration), str(path))


# Calibration -----------------------------------------------------------------------------------------------------


def test_without_a_calibration_an_arm_is_refused_and_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"so100 needs its calibration: calibrate the arm with LeRobot"):
        FeetechArm(SO100, uri="serial:///dev/ttyACM0")
    with pytest.raises(UserError, match=r"gone\.json does not exist"):
        FeetechArm(SO100, uri="serial:///dev/ttyACM0?calibration=gone.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        FeetechArm(SO100, uri=f"serial:///dev/ttyACM0?calibration={tmp_path}/bad.json")
    with pytest.raises(UserError, match=r"names no port: give serial:///dev/ttyACM0"):
        FeetechArm(SO100, uri=f"serial://?calibration={tmp_path}/bad.json")
    with pytest.raises(UserError, match="turtlebot3_burger is a wheeled_base"):
        FeetechArm(load_robot("turtlebot3_burger"), uri="serial:///dev/ttyACM0?calibration=x")


def test_a_calibration_that_does_not_fit_the_robot_file_is_refused_with_both_values(peer: FeetechPeer) -> None:
    uri = recalibrated(peer, elbow_flex={"range_min": 1500, "range_max": 2600})
    with pytest.raises(UserError, match=r"elbow_flex was moved through 1\.69 rad .* allows 3\.14 rad"):
        FeetechArm(SO100, uri=uri)
    with pytest.raises(UserError, match=r"ids \[1, 1, 3, 4, 5, 6\]"):
        FeetechArm(SO100, uri=recalibrated(peer, shoulder_lift={"id": 1}))
    with pytest.raises(UserError, match=r"range_min: 3000 is not allowed"):
        FeetechArm(SO100, uri=recalibrated(peer, gripper={"range_min": 3000}))
    with pytest.raises(UserError, match=r"for the joints .*, and panda has"):
        FeetechArm(Manipulator.load("panda"), uri=peer.uri)
    with pytest.raises(UserError, match=r"joint in the option reverse 'elbow'.*elbow_flex"):
        FeetechArm(SO100, uri=peer.uri + "&reverse=elbow")
    with pytest.raises(UserError, match=r"torque=2\.0 .* must be from 0\.01 to 1"):
        FeetechArm(SO100, uri=peer.uri + "&torque=2")


def test_the_calibration_of_another_arm_is_refused_with_both_values(peer: FeetechPeer) -> None:
    peer.servos[2].put(sts.OFFSET, 100)
    assert "Servo 3 (elbow_flex) has homing_offset 100, and " in (said := refused(peer)) and "says 1033" in said
    peer.servos[2].put(sts.OFFSET, 1033)
    peer.servos[1].put(sts.HIGH, 2500)
    assert "Servo 2 (shoulder_lift) has range_max 2500" in refused(peer)


def test_ticks_are_angles_about_the_middle_of_the_range(peer: FeetechPeer) -> None:
    uri = recalibrated(peer, shoulder_pan={"drive_mode": 1}) + "&reverse=shoulder_pan,gripper"
    arm = FeetechArm(SO100, uri=uri)
    peer.move.at = [2047.0 + 200.0] * 6  # type: ignore[attr-defined]
    assert soon(lambda: peer.servos[5].word(sts.POSITION) == 2247)
    arm.connect()
    try:
        middles = np.array([0.5 * (joint.lower + joint.upper) for joint in SO100.drives])
        turned = 200 * np.pi / 2048 * np.array([1, 1, 1, 1, 1, -1])  # turned twice is not turned
        np.testing.assert_allclose(arm.read().signals["joint_position"], middles + turned, atol=2e-3)
    finally:
        arm.close()


# What is at the other end ----------------------------------------------------------------------------------------


def test_what_is_not_the_arm_is_refused_before_torque(peer: FeetechPeer) -> None:
    servo = peer.servos[3]
    peer.servos.append(Sts3215(4))
    peer.move.at.append(0.0)  # type: ignore[attr-defined]
    assert "2 servos answer to the number 4" in refused(peer)
    peer.servos.pop()
    servo.memory[sts.NUMBER] = 9
    assert "Servo 4 (wrist_flex) does not answer" in refused(peer)
    servo.memory[sts.NUMBER] = 4
    servo.put(sts.MODEL, 1284)
    assert "model number 1284, and must be one of STS3215 (777)" in refused(peer)
    servo.put(sts.MODEL, 777)
    servo.memory[33] = 1
    assert "operating mode 1, and must be in one of position (0)" in refused(peer)
    servo.memory[33] = 0
    servo.memory[sts.VOLTAGE] = 41
    assert "wrist_flex has 4.1 V" in refused(peer)
    servo.memory[sts.VOLTAGE] = 74
    servo.errors = 32
    assert "Servo 4 (wrist_flex) reports: overload" in refused(peer)


def test_a_port_in_use_or_missing_is_said(peer: FeetechPeer, arm: FeetechArm) -> None:
    other = FeetechArm(SO100, uri=peer.uri)
    with pytest.raises(UserError, match="another program uses it: end that one"):
        other.connect()
    with pytest.raises(UserError, match=r"/dev/nothing cannot be opened .* plug it in"):
        FeetechArm(SO100, uri=f"serial:///dev/nothing?calibration={peer.calibration}").connect()
    with pytest.raises(UserError, match="cannot run at 12345 baud"):
        FeetechArm(SO100, uri=f"serial:///dev/null?calibration={peer.calibration}&baud=12345").connect()


# Moving ----------------------------------------------------------------------------------------------------------


def test_the_first_command_powers_an_arm_where_it_stands_and_then_moves_it(
    peer: FeetechPeer, arm: FeetechArm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not peer.powered and not arm.powered
    for servo in peer.servos:
        servo.put(sts.GOAL, 3000)  # an old goal, far away
    goals: list[int] = []
    place = sts.Sts3215.move_to

    def watched(servo: Sts3215, ticks: float, speed: float) -> None:
        if servo.torque:
            goals.append(servo.goal)
        place(servo, ticks, speed)

    monkeypatch.setattr(sts.Sts3215, "move_to", watched)
    target = arm.read().signals["joint_position"] + 0.1
    sent = arm.write({"joint_target": target})["joint_target"]
    np.testing.assert_allclose(sent, target, atol=1e-3)  # to the nearest tick
    assert soon(lambda: np.abs(arm.read().signals["joint_position"] - sent).max() < 2e-3)
    assert 3000 not in goals
    assert [servo.word(sts.SPEED) for servo in peer.servos] == [round(4.7 * 2048 / np.pi)] * 6
    assert set(arm.state) == set(NAMES) and arm.state["gripper"]["voltage"] == pytest.approx(7.4)


def test_commands_stay_within_the_joints_and_the_calibrated_range(arm: FeetechArm) -> None:
    for sign in (-1.0, 1.0):
        sent = arm.write({"joint_target": np.full(6, sign * 10.0)})["joint_target"]
        ends = [joint.upper if sign > 0.0 else joint.lower for joint in SO100.drives]
        np.testing.assert_allclose(sent, ends, atol=3e-3)


def test_an_error_of_a_servo_is_named_and_forbids_commands_until_it_is_gone(peer: FeetechPeer, arm: FeetechArm) -> None:
    rest = {"joint_target": arm.read().signals["joint_position"]}
    peer.servos[5].errors = 32 | 8
    assert soon(lambda: arm.trouble)
    with pytest.raises(ValueError, match=r"Servo 6 \(gripper\) reports: overcurrent, overload"):
        arm.write(rest)
    peer.servos[5].errors = 0
    peer.servos[1].memory[sts.TEMPERATURE] = 65
    assert soon(lambda: "65 degrees, and 60 are allowed" in arm.trouble)
    peer.servos[1].memory[sts.TEMPERATURE] = 71  # beyond the servo's own limit
    assert soon(lambda: "Servo 2 (shoulder_lift) reports: overheated" in arm.trouble)
    peer.servos[1].memory[sts.TEMPERATURE] = 30
    peer.servos[0].memory[sts.VOLTAGE] = 42
    assert soon(lambda: "Servo 1 (shoulder_pan) has 4.2 V, below 4.5 V" in arm.trouble)
    peer.servos[0].memory[sts.VOLTAGE] = 74
    assert soon(lambda: not arm.trouble)
    arm.write(rest)


def test_load_voltage_and_temperature_are_for_the_diagnostics_and_what_is_near_a_limit_is_warned_of(
    peer: FeetechPeer, arm: FeetechArm
) -> None:
    assert isinstance(arm, Monitored) and arm.report["firmware"] == "Feetech STS, version 3"
    warning, figures = arm.health()
    assert not warning and figures["gripper"] == "load 0%, 7.4 V, 30 degrees"
    peer.servos[1].memory[sts.TEMPERATURE] = 57
    assert soon(lambda: arm.health()[0] == "shoulder_lift has 57 degrees, 60 are allowed") and not arm.trouble
    peer.servos[1].memory[sts.TEMPERATURE] = 30
    peer.servos[2].put(sts.LOAD, 950)
    assert soon(lambda: "elbow_flex has a load of 95%" in arm.health()[0])
    assert figures["bus, median"].endswith("ms")


def test_servos_that_lost_power_are_powered_anew_where_they_are(peer: FeetechPeer, arm: FeetechArm) -> None:
    arm.write({"joint_target": arm.read().signals["joint_position"]})
    assert soon(lambda: arm.powered) and peer.powered
    peer.lose_link()
    assert soon(lambda: not arm.powered)
    for servo in peer.servos:
        servo.memory[sts.TORQUE] = 0
        servo.put(sts.SPEED, 0)
    before = arm.read().time_s
    peer.regain_link()
    assert soon(lambda: arm.read().time_s > before)
    time.sleep(0.05)
    assert not peer.powered, "the last command is not repeated"
    arm.write({"joint_target": arm.read().signals["joint_position"]})
    assert soon(lambda: peer.powered) and peer.servos[0].word(sts.SPEED) > 0


def test_a_stop_that_the_link_did_not_take_is_told_again_when_it_is_back(peer: FeetechPeer, arm: FeetechArm) -> None:
    arm.write({"joint_target": arm.read().signals["joint_position"]})
    assert soon(lambda: arm.powered)
    peer.lose_link()
    arm.disarm()
    assert peer.powered
    peer.regain_link()
    assert soon(lambda: not peer.powered)


def test_of_a_hundred_frames_five_may_be_lost(peer: FeetechPeer, arm: FeetechArm) -> None:
    peer.loss = 0.05
    oldest, end = 0.0, time.monotonic() + 1.0
    while time.monotonic() < end:
        target = arm.read().signals["joint_position"]
        arm.write({"joint_target": target})
        oldest = max(oldest, time.time() - arm.read().time_s)
        time.sleep(0.01)
    assert arm.powered and not arm.trouble and oldest < 0.2
    peer.loss = 0.3
    arm.disarm()
    assert not peer.powered


def test_an_adapter_that_is_pulled_out_and_plugged_in_again_comes_back(peer: FeetechPeer, arm: FeetechArm) -> None:
    peer.replug()
    before = arm.read().time_s
    assert soon(lambda: arm.read().time_s > before + 0.1)


# Dynamixel -------------------------------------------------------------------------------------------------------


@pytest.fixture
def dynamixels() -> Iterator[DynamixelPeer]:
    pytest.importorskip("dynamixel_sdk")
    with DynamixelPeer() as made:
        yield made


def test_dynamixels_are_held_against_their_calibration_and_their_errors_named(dynamixels: DynamixelPeer) -> None:
    servo = dynamixels.servos[1]
    servo.table[dxl.DRIVE] = 1
    assert "Servo 2 (shoulder_lift) has drive_mode 1, and " in refused(dynamixels, DynamixelArm)
    servo.table[dxl.DRIVE] = 0
    servo.put(dxl.OFFSET, 3)
    assert "has homing_offset 3, and " in (said := refused(dynamixels, DynamixelArm)) and "says -1024" in said
    servo.put(dxl.OFFSET, -1024)
    servo.table[dxl.HARDWARE] = 36
    assert "reports: overheated, overload" in refused(dynamixels, DynamixelArm)


def test_a_dynamixel_arm_that_was_left_alone_stops_itself_and_obeys_again(dynamixels: DynamixelPeer) -> None:
    arm = DynamixelArm(SO100, uri=dynamixels.uri)
    arm.connect()
    try:
        target = arm.read().signals["joint_position"] + 0.1
        sent = arm.write({"joint_target": target})["joint_target"]
        assert soon(lambda: np.abs(arm.read().signals["joint_position"] - sent).max() < 2e-3)
        dynamixels.lose_link()
        assert soon(lambda: dynamixels.servos[0].table[dxl.WATCHDOG] == 0xFF)
        dynamixels.regain_link()
        before = arm.read().time_s
        assert soon(lambda: arm.read().time_s > before)
        sent = arm.write({"joint_target": target - 0.2})["joint_target"]
        assert soon(lambda: np.abs(arm.read().signals["joint_position"] - sent).max() < 2e-3)
        dynamixels.loss = 0.3
        arm.disarm()
        assert not dynamixels.powered
    finally:
        arm.close()
