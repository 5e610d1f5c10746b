"""An arm under ros2_control: both kinds of controller, names in any order, and what is refused before it is led."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy")

from rlstack.errors import UserError
from rlstack.hardware.drivers.ros2_control import Ros2ControlArm
from rlstack.hardware.ros2_control.controller import check_state
from rlstack.robots import load_robot
from tests.support.peers.ros2_control import FORWARD, JTC, Ros2ControlPeer
from tests.support.waiting import soon


@pytest.fixture(params=[JTC, FORWARD])
def peer(request: pytest.FixtureRequest) -> Iterator[Ros2ControlPeer]:
    with Ros2ControlPeer(request.param) as made:
        yield made


def commanded(arm: Ros2ControlArm, target: Any, until: Callable[[], object]) -> bool:
    """Send a target fifty times a second until something holds."""

    def sent() -> object:
        arm.write({"joint_target": np.array(target)})
        time.sleep(0.02)
        return until()

    return soon(sent, 15.0)


def test_each_joint_goes_to_its_own_target_and_stops_where_it_is(peer: Ros2ControlPeer) -> None:
    """The controller's order is not the robot file's, nor is that of the joint states, which have one joint more."""
    arm = Ros2ControlArm(peer.robot, uri=peer.uri)
    arm.connect()
    try:
        rest = peer.rest()["joint_target"]
        wanted = rest + np.array([0.1, 0.2, -0.1, 0.3, -0.2, 0.15, 0.0, 0.0])
        assert commanded(arm, wanted, lambda: np.abs(peer.joints - wanted[:6]).max() < 2e-3)
        assert soon(lambda: np.abs(arm.read().signals["joint_position"] - wanted).max() < 5e-3)
        assert abs(time.time() - arm.read().time_s) < 1.0
        away = wanted - 1.0
        assert commanded(arm, away, lambda: np.abs(peer.joints - wanted[:6]).max() > 0.1)
        assert arm.let_go() == "at rest, where it holds itself"
        assert soon(lambda: not peer.powered)
        assert soon(lambda: np.abs(peer.speeds).max() < 1e-2)
        assert np.abs(peer.joints - away[:6]).max() > 0.02  # it did not go on to there
        assert not peer.refused
        stopped = peer.goal
        peer.sag = 0.05
        assert soon(lambda: np.abs(arm.read().signals["joint_position"][:6] - stopped).max() > 0.02)
        for _ in range(5):
            arm.disarm()
        assert not soon(lambda: np.abs(peer.goal - stopped).max() > 1e-6, 0.3), "an emergency stop is repeated"
    finally:
        arm.close()


def test_a_controller_of_velocities_or_of_another_name_is_refused() -> None:
    with Ros2ControlPeer() as peer:
        with pytest.raises(UserError, match=f"such topics here: .*/arm/{JTC}/joint_trajectory"):
            Ros2ControlArm(peer.robot, uri=peer.uri.replace(JTC, "cartesian_controller")).connect()
        peer.write_instead("velocity")
        with pytest.raises(UserError, match="writes velocity: rlstack commands positions"):
            Ros2ControlArm(peer.robot, uri=peer.uri).connect()
        assert not peer.powered and not peer.refused


def test_a_controller_that_is_not_active_is_refused() -> None:
    states = {JTC: "active", FORWARD: "inactive"}
    check_state(f"/arm/{JTC}", states, "/controller_manager")
    with pytest.raises(UserError, match=f"{FORWARD} is inactive, not active: ros2 control"):
        check_state(f"/arm/{FORWARD}", states, "/controller_manager")
    with pytest.raises(UserError, match=f"has no controller other; it has: {FORWARD}, {JTC}"):
        check_state("/other", states, "/controller_manager")


def test_what_the_robot_file_or_uri_lacks_is_refused_before_anything_opens() -> None:
    ur5e = load_robot("ur5e")
    for uri, said in (
        ("ros:///", "names no controller"),
        ("ros://host/controller", "names no controller"),
        ("ros:///controller?reach=0", "reach=0"),
        ("ros:///controller?gripper=soft", "must be fixed"),
    ):
        with pytest.raises(UserError, match=said):
            Ros2ControlArm(ur5e, uri=uri)
    with pytest.raises(UserError, match="is not an arm"):
        Ros2ControlArm(load_robot("crazyflie"), uri="ros:///controller")
