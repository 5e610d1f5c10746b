"""The driver against a Crazyflie that speaks CRTP over UDP: what the conformance suite asks of no driver."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.hardware.drivers.crazyflie import BACKEND
from rlstack.interfaces.backend import Located
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots.frames import yaw
from tests.support.peers.crazyflie import CrazyfliePeer
from tests.support.rates_pilot import Holding, fly


def soon(condition: Callable[[], object], within_s: float = 3.0) -> bool:
    end = time.monotonic() + within_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
    return bool(condition())


def connected(peer: CrazyfliePeer, options: str = "") -> Any:
    backend = BACKEND(peer.robot, uri=peer.uri + options)
    backend.connect()
    return backend


def refused(peer: CrazyfliePeer) -> str:
    with pytest.raises(UserError) as caught:
        connected(peer)
    return str(caught.value)


def test_it_takes_off_holds_a_place_on_a_link_that_drops_packets_and_falls_by_its_own_watchdog() -> None:
    """5% of the packets are lost both ways, from the first on; then set-points end."""
    with CrazyfliePeer() as peer:
        peer.loss = 0.05
        backend = connected(peer)
        goal = [0.4, -0.3, 0.8]
        held = Holding(backend, goal, 0.08)
        reading = fly(backend, goal, 20.0, until=held)
        assert 10 < len(peer.setpoints) < held.calls - 3, "packets were lost"
        assert np.linalg.norm(reading.signals["position"] - goal) < 0.1
        assert np.linalg.norm(np.array(peer.airframe.position) - goal) < 0.1
        count = len(peer.setpoints)
        assert soon(lambda: peer.levelled == 1), "nothing repeats the last command"
        assert len(peer.setpoints) <= count + 1
        assert soon(lambda: not peer.powered)
        backend.close()
        assert peer.emergencies == 0


def test_one_that_is_let_go_lands_by_its_own_commander_and_one_that_stands_is_stopped() -> None:
    with CrazyfliePeer() as peer:
        backend = connected(peer)
        fly(backend, [0.0, 0.0, 0.5], 20.0, until=Holding(backend, [0.0, 0.0, 0.5], 0.1))
        assert backend.let_go() == "it lands by its own commander"
        assert soon(lambda: peer.landings)
        height, seconds = peer.landings[0]
        assert height == 0.0 and seconds == pytest.approx(1.25, abs=0.3)
        time.sleep(0.3)
        assert peer.powered and not peer.airframe.on_ground
        assert soon(lambda: peer.airframe.on_ground and not peer.powered)
        assert not peer.stops
        assert soon(lambda: backend.let_go() == "disarmed"), "once its log shows that it stands"
        backend.close()


def test_what_the_body_does_is_what_is_read_and_what_is_commanded_is_what_it_does() -> None:
    with CrazyfliePeer() as peer:
        backend, body, heading = connected(peer), peer.airframe, 0.7
        body.q, body.position = [0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2)], [1.5, -2.0, 0.0]
        before = backend.read().time_s
        assert soon(lambda: backend.read().time_s > before + 0.05)
        reading = backend.read()
        assert yaw(reading.signals["orientation"]) == pytest.approx(heading, abs=1e-5)
        assert reading.signals["position"] == pytest.approx([1.5, -2.0, 0.0], abs=1e-3)
        assert reading.signals["battery_percentage"] == pytest.approx(0.71)
        body.position[2] = 2.0  # in the air
        command = {"rates_thrust": np.array([0.8, 0.5, -0.3, 9.0])}
        assert soon(lambda: backend.write(command)["rates_thrust"].any() or time.sleep(0.01))
        assert soon(lambda: (backend.write(command) and time.sleep(0.01)) or abs(body.rates[0] - 0.8) < 0.01)
        assert body.rates == pytest.approx([0.8, 0.5, -0.3], abs=0.02), "FLU"
        assert body.wanted_thrust == pytest.approx(9.0, rel=0.01)
        assert soon(lambda: abs(backend.read().signals["angular_velocity"][1] - 0.5) < 0.03)
        backend.disarm()
        assert soon(lambda: not peer.powered)
        backend.close()


def test_a_brushless_one_is_armed_first_and_a_tumbled_one_is_told_and_flies_no_more() -> None:
    with CrazyfliePeer(brushless=True) as peer:
        backend = connected(peer)
        fly(backend, [0.0, 0.0, 1.0], 3.0, until=lambda: peer.airframe.position[2] > 0.3)
        assert peer.armed and peer.airframe.position[2] > 0.3
        peer.airframe.q = [1.0, 0.0, 0.0, 0.0]  # upside down
        with pytest.raises(ValueError, match="does not fly: it is"):
            fly(backend, [0.0, 0.0, 1.0], 3.0)
        backend.close()
        assert "locked: restart it" in refused(peer)


def test_the_watchdog_stops_the_motors_for_good_where_commands_end() -> None:
    with CrazyfliePeer() as peer:
        backend = connected(peer, "?watchdog=true")
        fly(backend, [0.0, 0.0, 1.0], 0.5)
        assert peer.powered
        assert soon(lambda: peer.locked) and not peer.levelled > 1
        backend.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"magic": b"Betaflight"}, "is no Crazyflie: b'Betaflight"),
        ({"protocol": 3}, "speaks protocol 3; this driver needs 4"),
        ({"locked": True}, "is locked: restart it"),
        ({"slow": 2}, r"logs its state \d\d times a second, wanted are 100"),
        ({"deaf": {(5, 1)}}, "refuses the reset of its log"),
        ({"deaf": {(15, 1)}}, "No Crazyflie answers"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_before_anything_moves(change: dict[str, Any], said: str) -> None:
    peer = CrazyfliePeer()
    vars(peer).update(change)
    with peer:
        assert re.search(said, refused(peer))
        assert not peer.setpoints and not peer.powered


def test_without_a_position_or_a_variable_it_is_refused() -> None:
    with CrazyfliePeer() as peer:
        peer.parameters["stabilizer.estimator"][1] = 1
        assert "stabilizer.estimator is 1, must be 2" in refused(peer)
    with CrazyfliePeer() as peer:
        peer.logged = [row for row in peer.logged if row[0] != "supervisor.info"]
        assert "firmware 2025.02" in (said := refused(peer)) and "no log variable supervisor.info" in said


def test_poses_of_motion_capture_go_to_the_estimator() -> None:
    with CrazyfliePeer() as peer:
        backend = connected(peer, "?external_pose=true")
        assert isinstance(backend, Located) and not isinstance(BACKEND(peer.robot, uri=peer.uri), Located)
        backend.locate(time.time(), np.array([1.0, 2.0, np.nan]), np.array([0.0, 0.0, 0.6, 0.8]))
        backend.locate(time.time(), np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 0.6, 0.8]))
        assert soon(lambda: peer.poses)
        assert peer.poses[0] == pytest.approx([1.0, 2.0, 3.0, 0.0, 0.0, 0.6, 0.8])
        backend.close()


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("", "give --uri"),
        ("udp://127.0.0.1", "lacks the host or the port"),
        ("radio://0/180/2M/E7E7E7E7E7", "channel"),
        ("radio://0/80/2M/E7E7", "10 hex digits"),
        ("radio://0/80/2M/E7E7E7E7E7?hover_thrust=70000", "60000 is the most"),
    ],
)
def test_a_wrong_uri_is_refused_before_connecting(uri: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        BACKEND(load_quadrotor("crazyflie_rates"), uri=uri)


def test_a_robot_that_it_cannot_lift_is_refused_and_so_is_a_radio_without_its_library() -> None:
    robot = load_quadrotor("crazyflie_rates")
    heavy = replace(robot, body=replace(robot.body, mass_kg=0.058))
    with pytest.raises(UserError, match=r"hovering with 0\.058 kg takes a thrust of 63351"):
        BACKEND(heavy, uri="udp://127.0.0.1:19850")
    with pytest.raises(UserError, match=r"rlstack\[crazyflie\]|radio"):
        BACKEND(robot, uri="radio://0/80/2M/E7E7E7E7E7").connect()
