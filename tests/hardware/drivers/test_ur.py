"""A Universal Robot: what it says of itself against the robot file, its program, stops, and commands that cease."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.hardware.drivers import ur
from rlstack.hardware.drivers.ur import UrArm
from rlstack.hardware.ur.client_interface import ClientInterface
from rlstack.robots import load_robot
from tests.support.peers.ur import EMERGENCY, NORMAL, PROTECTIVE, UrPeer
from tests.support.waiting import soon


@pytest.fixture
def peer() -> Iterator[UrPeer]:
    with UrPeer() as made:
        yield made


@pytest.fixture
def arm(peer: UrPeer) -> Iterator[UrArm]:
    made = UrArm(peer.robot, uri=peer.uri)
    made.connect()
    yield made
    made.close()


def refused(peer: UrPeer) -> str:
    with pytest.raises(UserError) as caught:
        UrArm(peer.robot, uri=peer.uri).connect()
    assert not peer.powered and not peer.programs
    return str(caught.value)


def target(peer: UrPeer, away: float) -> dict[str, Array]:
    wanted = peer.rest()["joint_target"]
    wanted[:6] += away
    return {"joint_target": wanted}


def commanded(arm: UrArm, command: dict[str, Array], until: Callable[[], object]) -> bool:
    """Send a command fifty times a second until something holds."""

    def sent() -> object:
        arm.write(command)
        time.sleep(0.02)
        return until()

    return soon(sent, 10.0)


def test_an_arm_that_is_not_the_robot_files_is_refused_with_both_values(peer: UrPeer) -> None:
    peer.forearm = -0.5723  # a UR10's
    assert "is not a ur5e" in refused(peer)
    peer.forearm, peer.speed_limit = -0.3922, 2.0
    assert "allows 2.000 rad/s, and the robot file of ur5e has 3.142" in refused(peer)
    peer.speed_limit, peer.reach_limit = np.pi, 3.0
    assert "allows -3.000 to 3.000 rad" in refused(peer)
    peer.reach_limit, peer.payload = 6.3, 0.0
    assert "payload is 0.00 kg" in refused(peer) and "1.20 kg" in refused(peer)
    peer.payload, peer.version = 1.2, (3, 15, 0, 1)
    assert "PolyScope 3.15" in refused(peer)
    peer.version, peer.taken = (5, 15, 0, 1), "input_int_register_24"
    assert "another client uses input_int_register_24" in refused(peer)


def test_what_the_robot_file_or_uri_lacks_is_refused_before_anything_opens() -> None:
    with pytest.raises(UserError, match="gripper=fixed"):
        UrArm(load_robot("ur5e"), uri="rtde://127.0.0.1")
    with pytest.raises(UserError, match="six joints"):
        UrArm(load_robot("panda"), uri="rtde://127.0.0.1?gripper=fixed")
    with pytest.raises(UserError, match="timeout="):
        UrArm(load_robot("ur5e"), uri="rtde://127.0.0.1?gripper=fixed&timeout=2.0")


def test_it_goes_to_a_target_a_jump_away_without_a_protective_stop(peer: UrPeer, arm: UrArm) -> None:
    assert not peer.powered
    command = target(peer, 0.4)
    assert commanded(arm, command, lambda: np.allclose(peer.joints, command["joint_target"][:6], atol=2e-3))
    assert peer.safety_mode == NORMAL and len(peer.programs) == 1
    assert soon(lambda: np.allclose(arm.read().signals["joint_position"], command["joint_target"], atol=4e-3))
    assert abs(time.time() - arm.read().time_s) < 2.0
    arm.disarm()
    assert soon(lambda: not peer.powered)


def test_commands_that_cease_end_the_program_by_its_own_time(peer: UrPeer, arm: UrArm) -> None:
    assert commanded(arm, target(peer, 0.1), lambda: peer.powered and arm.powered)
    assert soon(lambda: not peer.powered)
    assert soon(lambda: "commands ceased" in arm.trouble)
    with pytest.raises(ValueError, match="disarm"):
        arm.write(peer.rest())
    arm.disarm()
    assert soon(lambda: not arm.trouble)
    assert commanded(arm, peer.rest(), lambda: peer.powered)


def test_the_controllers_watchdog_stops_a_program_that_does_not_end_itself(peer: UrPeer) -> None:
    """Such a program is made of the one that was sent, without its own time."""
    arm = UrArm(peer.robot, uri=peer.uri)
    arm.connect()
    try:
        assert commanded(arm, peer.rest(), lambda: peer.powered)
        endless = peer.programs[0].replace("silent = silent + dt", "silent = 0.0")
        with ClientInterface("127.0.0.1", peer.script_port).running(endless):
            assert soon(lambda: peer.watchdog_stops)
    finally:
        arm.close()


@pytest.mark.parametrize("mode, words", [(PROTECTIVE, "protective stop"), (EMERGENCY, "emergency stop is pressed")])
def test_stops_are_told_and_the_arm_starts_again_only_after_disarming(
    peer: UrPeer, arm: UrArm, mode: int, words: str
) -> None:
    assert commanded(arm, peer.rest(), lambda: peer.powered and arm.powered)
    peer.stop(mode)
    assert soon(lambda: words in arm.trouble)
    with pytest.raises(ValueError, match=words):
        arm.write(peer.rest())
    peer.stop(NORMAL)
    assert soon(lambda: "disarm, then arm anew" in arm.trouble)
    with pytest.raises(ValueError, match=words):
        arm.write(peer.rest())
    arm.disarm()
    assert soon(lambda: not arm.trouble)
    assert commanded(arm, peer.rest(), lambda: peer.powered)


def test_an_arm_in_local_control_is_told_to_be_set_to_remote_control(
    peer: UrPeer, arm: UrArm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ur, "_START_S", 0.3)
    peer.remote = False
    arm.write(peer.rest())
    assert soon(lambda: "Remote Control" in arm.trouble, 10.0)
    assert not peer.powered
