"""A microcontroller's base: what it says of itself against the robot file, power, watchdog, emergency stop."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.drivers.serial_base import SerialBase
from tests.support.peers.serial_base import FAULT, WATCHDOG, SerialBasePeer
from tests.support.waiting import soon


@pytest.fixture
def peer() -> Iterator[SerialBasePeer]:
    pytest.importorskip("serial")
    with SerialBasePeer() as made:
        yield made


@pytest.fixture
def base(peer: SerialBasePeer) -> Iterator[SerialBase]:
    made = SerialBase(peer.robot, uri=peer.uri)
    made.connect()
    yield made
    made.close()


def drive(base: SerialBase, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        base.write({"twist": np.array([0.2, 0.5])})
        time.sleep(0.05)


def refused(peer: SerialBasePeer) -> str:
    with pytest.raises(UserError) as caught:
        SerialBase(peer.robot, uri=peer.uri).connect()
    assert not peer.powered
    return str(caught.value)


def test_a_base_that_is_not_the_robot_files_is_refused_with_both_values(peer: SerialBasePeer) -> None:
    peer.version = 2
    assert "speaks version 2 of the protocol, and this driver version 1" in refused(peer)
    peer.version, peer.radius = 1, 0.05
    assert "has wheels of radius 0.0500 m, and the robot file of turtlebot3_burger has 0.0330 m" in refused(peer)
    peer.radius, peer.track = 0.033, 0.2
    assert "a track of 0.2000 m" in refused(peer)
    peer.track, peer.linear = 0.16, 0.1
    assert "limits its speed to 0.100 m/s" in refused(peer)
    peer.linear, peer.watchdog_ms = 0.22, 2000
    assert "stops 2000 ms after its last command" in refused(peer)


def test_it_drives_and_measures_and_stops(peer: SerialBasePeer, base: SerialBase) -> None:
    assert not peer.powered
    drive(base, 0.5)
    assert peer.powered and peer.speeds[0] > 3.0
    read = base.read()
    assert read.signals["linear_velocity"][0] == pytest.approx(0.2, abs=0.02)
    assert read.signals["angular_velocity"][2] == pytest.approx(0.5, abs=0.05)
    assert read.signals["battery_percentage"] == pytest.approx(0.8)
    assert abs(time.time() - read.time_s) < 0.2
    assert soon(lambda: abs(peer.speeds[0]) < 0.05), "commands have ceased"
    assert soon(lambda: peer.flags & WATCHDOG)
    drive(base, 0.3)
    assert soon(lambda: peer.speeds[0] > 3.0) and not peer.flags & WATCHDOG


def test_an_emergency_stop_forbids_commands_until_it_is_released(peer: SerialBasePeer, base: SerialBase) -> None:
    drive(base, 0.2)
    peer.press_stop(True)
    assert soon(lambda: base.trouble)
    with pytest.raises(ValueError, match="emergency stop is pressed: release it"):
        base.write({"twist": np.zeros(2)})
    peer.press_stop(False)
    assert soon(lambda: not base.trouble)
    assert not peer.powered, "releasing it moves nothing"
    drive(base, 0.2)
    assert soon(lambda: peer.powered)
    peer.flags |= FAULT
    assert soon(lambda: "reports a fault" in base.trouble)


def test_of_a_hundred_frames_five_may_be_lost(peer: SerialBasePeer, base: SerialBase) -> None:
    peer.loss = 0.05
    drive(base, 1.0)
    assert base.powered and peer.powered and not peer.flags & WATCHDOG
    peer.loss = 0.0
    peer.flags &= ~1  # the order to power the motors was lost
    drive(base, 0.6)
    assert peer.powered, "it is given again"
