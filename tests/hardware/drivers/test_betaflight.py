"""The Betaflight driver against a flight controller on a serial port: what it refuses, sends, and reads."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.drivers.betaflight import BetaflightBackend
from rlstack.interfaces.backend import Signals
from rlstack.robots import load_robot
from tests.hardware.conformance.test_driver import located, soon
from tests.support.peers.betaflight import BetaflightPeer

HOVER = {"rates_thrust": np.array([1.0, -2.0, 0.5, 9.81])}


@pytest.fixture
def peer() -> Iterator[BetaflightPeer]:
    with BetaflightPeer() as made:
        yield made


@pytest.fixture
def driver(peer: BetaflightPeer) -> Iterator[BetaflightBackend]:
    made = BetaflightBackend(peer.robot, uri=peer.uri)
    made.connect()
    yield made
    made.close()


def armed(driver: BetaflightBackend, peer: BetaflightPeer, command: Signals = HOVER) -> bool:
    def fly() -> bool:
        try:
            return bool(driver.write(command)["rates_thrust"].any())
        except ValueError as error:
            assert "RXLOSS" in str(error)  # in the first tenths of a second
            return False

    return soon(fly)


REFUSED = {
    "another firmware": ({2: b"INAV"}, "", "The firmware is 'INAV' 4.6.0: must be Betaflight"),
    "another version": ({1: bytes((0, 1, 44)), 3: bytes((4, 3, 1))}, "", r"4\.3\.1 with MSP 1\.44.*MSP 1\.47"),
    "another board": ({}, "?board=STM32F7", "is a RACER, not the STM32F7"),
    "another mixer": ({42: bytes((10, 0))}, "", "number 10 with 4 motors"),
    "another receiver": ({36: struct.pack("<I", 1 << 3)}, "", "receiver is not MSP"),
    "no override": ({}, "?pilot=true", "needs the mode MSP OVERRIDE"),
    "bent throttle": ({111: bytes((7, 0, 67, 67, 67, 0, 40, 30, *bytes(16)))[:22] + b"\x03\x32"}, "", "thr_expo"),
    "other rates": ({111: bytes((7, 0, 67, 67, 67, 0, 50, *bytes(15), 4, 50))}, "", "rates type QUICK"),
    "no arming range": ({34: bytes(8)}, "", "0 ranges for ARM"),
    "arming beside angle": ({34: bytes((0, 0, 32, 48, 1, 0, 0, 48))}, "", "No position of AUX1 leaves the modes ANGLE"),
    "short answers": ({44: b"\x00"}, "", "another layout"),
    "an unknown gyroscope": ({0x300A: bytes((40, 16, 2))}, "", "gyroscope is number 40, which is not known"),
    "a wrong range": ({}, "?gyroscope=16", "gyroscope=16, which is not allowed"),
    "a tilted start": ({102: struct.pack("<9h", 0, 0, 1500, *(0,) * 6)}, "", "reads 1500 at rest"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_flight_controller_that_would_not_do_as_commanded_is_refused(peer: BetaflightPeer, case: str) -> None:
    changed, query, message = REFUSED[case]
    peer.answers |= changed
    with pytest.raises(UserError, match=message):
        BetaflightBackend(peer.robot, uri=peer.uri + query).connect()
    assert not peer.powered


@pytest.mark.parametrize(
    ("number", "high_range", "query", "deg_s"),
    [
        (13, 0, "", 2000.0),  # ICM42688P
        (13, 1, "", 2000.0),
        (10, 1, "", 4000.0),  # ICM20649
        (10, 0, "", 2000.0),
        (18, 0, "", 4000.0),  # IIM42653
        (16, 0, "", 0.07 * 32768.0),  # LSM6DSO
        (40, 0, "?gyroscope=4000", 4000.0),
    ],
)
def test_rates_are_in_the_unit_of_the_gyroscope_that_was_found(
    peer: BetaflightPeer, number: int, high_range: int, query: str, deg_s: float
) -> None:
    ticks = 1638
    peer.answers[0x300A] = bytes((number, 16, 2))
    peer.answers[90] = peer.answers[90][:11] + bytes((high_range,))
    peer.answers[102] = struct.pack("<9h", 0, 0, 2048, ticks, 0, -ticks, 0, 0, 0)
    driver = BetaflightBackend(peer.robot, uri=peer.uri + query)
    driver.connect()
    try:
        driver.locate(time.time(), *peer.pose())
        turning = driver.read().signals["angular_velocity"]
    finally:
        driver.close()
    assert np.allclose(turning, np.radians(deg_s) / 32768.0 * np.array((ticks, 0, -ticks)))


def test_one_that_answers_as_seldom_as_by_default_is_refused(peer: BetaflightPeer) -> None:
    peer.serial_s = 0.01
    with pytest.raises(UserError, match="serial_update_rate_hz"):
        BetaflightBackend(peer.robot, uri=peer.uri).connect()


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("serial:///dev/null?hover_throttle=2", "hover_throttle=2"),
        ("serial:///dev/no-such-port", "cannot be opened"),
        ("tcp://127.0.0.1:1", "rlstack sitl"),
    ],
)
def test_a_wrong_uri_is_refused(uri: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        BetaflightBackend(load_robot("racer"), uri=uri).connect()


def test_an_arm_is_refused() -> None:
    with pytest.raises(UserError, match="quadrotors"):
        BetaflightBackend(load_robot("panda"), uri="serial:///dev/ttyACM0")


def test_it_says_why_the_flight_controller_does_not_arm(driver: BetaflightBackend, peer: BetaflightPeer) -> None:
    peer.hinders = 1 << 12 | 1 << 20
    assert soon(lambda: peer.frames > 10)
    time.sleep(0.1)
    with pytest.raises(ValueError, match=r"gyroscope calibrates.*; its motors report no speed \(DSHOT_TELEM\)"):
        driver.write(HOVER)
    assert not peer.powered and peer.channels[4] < 1700


def test_sticks_say_what_was_commanded(driver: BetaflightBackend, peer: BetaflightPeer) -> None:
    assert armed(driver, peer) and peer.powered
    sent = driver.write(HOVER)["rates_thrust"]
    assert np.allclose(sent, HOVER["rates_thrust"], atol=0.03)
    frames = peer.frames
    assert soon(lambda: peer.frames > frames or peer.channels[2] > 1100)
    roll, pitch, throttle, yaw, arm = peer.channels[:5]  # AETR
    assert roll > 1500 and pitch < 1500 and yaw < 1500 and 1200 < throttle < 1400 and arm >= 1700


def test_it_repeats_no_command_while_armed_and_keeps_the_receiver_alive_before(
    driver: BetaflightBackend, peer: BetaflightPeer
) -> None:
    assert soon(lambda: peer.frames > 5)
    assert armed(driver, peer)
    time.sleep(0.1)
    frames = peer.frames
    time.sleep(0.2)
    assert peer.frames == frames
    driver.disarm()
    assert soon(lambda: peer.frames > frames + 5)


def test_one_that_has_disarmed_itself_is_not_armed_again_by_a_command(
    driver: BetaflightBackend, peer: BetaflightPeer
) -> None:
    assert armed(driver, peer)
    peer.powered, peer.hinders = False, 1 << 5
    with pytest.raises(ValueError, match="has disarmed itself: it has found a runaway take-off"):
        for _ in range(100):
            driver.write(HOVER)
            time.sleep(0.01)
    peer.hinders = 0
    time.sleep(0.3)
    with pytest.raises(ValueError, match="disarm and arm again"):
        driver.write(HOVER)
    driver.disarm()
    assert armed(driver, peer)


def test_a_measurement_is_of_the_time_of_its_pose_and_stops_with_either(
    driver: BetaflightBackend, peer: BetaflightPeer
) -> None:
    level, start = np.array([0.0, 0.0, 0.0, 1.0]), time.time()
    for k in range(5):
        driver.locate(start + 0.001 * k, np.array([0.1 * k, 0.0, 1.0]), level)
        assert driver.read().time_s == start + 0.001 * k
    peer.lose_link()
    time.sleep(0.2)
    driver.locate(time.time(), np.ones(3), level)
    assert driver.read().time_s == start + 0.004
    peer.regain_link()
    assert soon(lambda: driver.read().time_s > start + 0.1)


def test_a_pose_that_disagrees_with_the_attitude_is_not_flown(driver: BetaflightBackend, peer: BetaflightPeer) -> None:
    assert soon(lambda: peer.frames > 20)
    time.sleep(0.1)
    driver.locate(time.time(), np.zeros(3), np.array([0.0, 0.5, 0.0, 0.75**0.5]))
    with pytest.raises(ValueError, match=r"differ in tilt by 1\.05 rad"):
        driver.write(HOVER)


def test_before_the_first_pose_there_is_no_measurement_and_bad_poses_are_none(
    driver: BetaflightBackend, peer: BetaflightPeer
) -> None:
    assert driver.read().signals == {}
    level = np.array([0.0, 0.0, 0.0, 1.0])
    driver.locate(time.time(), np.array([np.nan, 0.0, 0.0]), level)
    driver.locate(time.time(), np.zeros(3), 2.0 * level)
    driver.locate(time.time() + 60.0, np.zeros(3), level)
    assert driver.read().signals == {} and driver.ignored_poses == 3
    with located(driver, peer):
        seen = driver.read().signals
    assert seen["linear_acceleration"].tolist() == [0.0, 0.0, 9.81]
    assert np.allclose(seen["position"], peer.pose()[0]) and seen["battery_voltage"].tolist() == [15.8]
    assert soon(lambda: driver.read().signals["battery_current"][0] == pytest.approx(-3.1))


def test_its_failsafe_does_not_run_the_motors_of_one_that_has_not_taken_off(peer: BetaflightPeer) -> None:
    peer.answers[75] = struct.pack("<BBHBHB", 15, 10, 1000, 0, 100, 0)
    driver = BetaflightBackend(peer.robot, uri=peer.uri)
    driver.connect()
    assert armed(driver, peer, {"rates_thrust": np.array([0.0, 0.0, 0.0, 2.0])})
    assert driver.let_go() == "disarmed"
    assert soon(lambda: not peer.powered)
    driver.close()


@pytest.mark.parametrize(("procedure", "lands"), [(0, "AUTO-LAND"), (1, ""), (2, "GPS-RESCUE")])
def test_it_is_left_to_a_failsafe_that_lands_it_and_disarmed_where_that_would_drop_it(
    peer: BetaflightPeer, procedure: int, lands: str
) -> None:
    peer.answers[75] = struct.pack("<BBHBHB", 15, 10, 1000, 0, 100, procedure)
    driver = BetaflightBackend(peer.robot, uri=peer.uri)
    driver.connect()
    assert armed(driver, peer)
    assert driver.let_go() == (f"left to the flight controller's failsafe {lands}" if lands else "disarmed")
    time.sleep(0.05)
    frames = peer.frames
    time.sleep(0.1)
    assert (peer.frames == frames) is bool(lands), "no channels come, so that its failsafe begins"
    driver.close()
    assert peer.powered is bool(lands)
