"""A TurtleBot3's OpenCR: what it is held against, odometry, heartbeat and watchdog."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.drivers.opencr import OpenCr
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.robots import frames, load_robot
from tests.support.peers import opencr as board
from tests.support.peers.opencr import OpenCrPeer
from tests.support.waiting import soon


@pytest.fixture
def peer() -> Iterator[OpenCrPeer]:
    pytest.importorskip("dynamixel_sdk")
    with OpenCrPeer() as made:
        yield made


@pytest.fixture
def base(peer: OpenCrPeer) -> Iterator[OpenCr]:
    made = OpenCr(peer.robot, uri=peer.uri)
    made.connect()
    yield made
    made.close()


def drive(base: OpenCr, twist: tuple[float, float], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        base.write({"twist": np.array(twist)})
        time.sleep(0.05)


def test_odometry_is_where_the_wheels_have_brought_it(peer: OpenCrPeer, base: OpenCr) -> None:
    for twist in ((0.2, 0.0), (0.1, 1.0), (0.0, -1.5)):
        drive(base, twist, 0.4)
    drive(base, (0.0, 0.0), 0.5)
    signals = base.read().signals
    np.testing.assert_allclose(signals["position"][:2], peer.pose[:2], atol=2e-3)
    assert signals["position"][2] == pytest.approx(0.01)  # base_link is a centimetre above the floor
    yaw = frames.from_yaw(peer.pose[2])
    np.testing.assert_allclose(signals["orientation"], yaw, atol=5e-3)
    np.testing.assert_allclose(signals["joint_position"], peer.turned, atol=2e-3)
    assert signals["battery_voltage"] == pytest.approx(12.0) and signals["battery_percentage"] == pytest.approx(0.95)
    assert signals["linear_acceleration"] == pytest.approx([0.0, 0.0, 9.81])


def test_a_twist_is_sent_in_hundredths_within_the_robots_limits(peer: OpenCrPeer, base: OpenCr) -> None:
    assert base.write({"twist": np.array([0.1234, -0.567])})["twist"] == pytest.approx([0.12, -0.57])
    assert base.write({"twist": np.array([9.0, 0.0])})["twist"] == pytest.approx([0.22, 0.0])
    assert soon(lambda: peer.table[board.VELOCITY] == 22)


def test_a_base_stops_when_commands_cease_and_when_its_driver_is_gone(peer: OpenCrPeer, base: OpenCr) -> None:
    drive(base, (0.2, 0.0), 0.3)
    assert peer.speeds[0] > 3.0
    assert soon(lambda: peer.table[board.VELOCITY] == 0, 2.0), "the driver stops it"
    assert soon(lambda: abs(peer.speeds[0]) < 0.05) and peer.watchdog_stops == 0
    drive(base, (0.2, 0.0), 0.3)
    peer.lose_link()
    assert soon(lambda: peer.watchdog_stops == 1), "without heartbeats the board stops it"
    peer.regain_link()
    before = base.read().time_s
    assert soon(lambda: base.read().time_s > before)
    drive(base, (0.2, 0.0), 0.3)
    assert soon(lambda: peer.speeds[0] > 3.0)


def test_of_a_hundred_frames_five_may_be_lost(peer: OpenCrPeer, base: OpenCr) -> None:
    peer.loss = 0.05
    oldest, end = 0.0, time.monotonic() + 1.0
    while time.monotonic() < end:
        base.write({"twist": np.array([0.1, 0.0])})
        oldest = max(oldest, time.time() - base.read().time_s)
        time.sleep(0.02)
    assert base.powered and peer.watchdog_stops == 0 and oldest < 0.3
    peer.loss = 0.3
    base.disarm()
    assert not peer.powered


def test_a_board_of_another_robot_is_refused_with_both_values(peer: OpenCrPeer) -> None:
    peer.put("<I", 2, 2)
    with pytest.raises(UserError, match=r"TurtleBot3 Waffle, with a track of 0\.287 m, and .* has 0\.160 m"):
        OpenCr(peer.robot, uri=peer.uri).connect()
    peer.put("<I", 2, 1)
    burger = WheeledBase.load("turtlebot3_burger")
    wider = replace(burger, wheels=tuple(replace(wheel, radius_m=0.04) for wheel in burger.wheels), casters=())
    with pytest.raises(UserError, match=r"wheels of radius 0\.033 m, and .* has 0\.040 m"):
        OpenCr(wider, uri=peer.uri).connect()
    peer.put("<b", board.DEVICE_STATUS, -1)
    with pytest.raises(UserError, match=r"no connection with its motors \(status -1\)"):
        OpenCr(peer.robot, uri=peer.uri).connect()
    peer.put("<H", 0, 1060)
    with pytest.raises(UserError, match=r"model number 1060, and must be one of TurtleBot3 \(20480\)"):
        OpenCr(peer.robot, uri=peer.uri).connect()
    with pytest.raises(UserError, match="husky is not a differential base with two wheels"):
        OpenCr(load_robot("husky"), uri=peer.uri)


def test_motors_that_are_lost_forbid_commands(peer: OpenCrPeer, base: OpenCr) -> None:
    peer.put("<b", board.DEVICE_STATUS, -1)
    assert soon(lambda: base.trouble)
    with pytest.raises(ValueError, match="no connection with its motors"):
        base.write({"twist": np.zeros(2)})
