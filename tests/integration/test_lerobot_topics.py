"""LeRobot's two ways to a robot on topics: its loop reads and commands one, and a policy that it serves moves one."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from rlstack.environments.topic_robot import TopicRobot
from rlstack.errors import UserError
from rlstack.interfaces import topics
from tests.support.deployed import Up
from tests.support.policy_server import PolicyServer
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


def test_another_program_s_loop_moves_an_arm_through_its_guard() -> None:
    robot = TopicRobot("so100", units="degrees", max_age_s=1.5)
    with Up("deploy", "--robot", "so100", "--backend", "mujoco", "--commander", "external") as up:
        up.until("disarmed")
        robot.connect()
        try:
            begun = robot.observation()
            end = time.monotonic() + 60.0
            while abs(robot.observation()["shoulder_pan.pos"] - begun["shoulder_pan.pos"] - 15.0) > 1.5:
                assert time.monotonic() < end, f"{robot.mode}, {robot.observation()}\n{up.seen}"
                sent = robot.send({**begun, "shoulder_pan.pos": begun["shoulder_pan.pos"] + 15.0})
                time.sleep(1 / 30)
            assert sent["shoulder_pan.pos"] == begun["shoulder_pan.pos"] + 15.0 and robot.mode == "policy"
            with pytest.raises(UserError, match=r"refused: gripper.pos is not finite"):
                robot.send({**begun, "gripper.pos": math.nan})
            with pytest.raises(UserError, match=r"An action has gripper.pos, and the robot takes shoulder_pan.pos"):
                robot.send({"gripper.pos": 1.0})
            assert "Another program commands /so100/policy/cmd/joints already" in _refused(TopicRobot("so100"))
            up.until("policy -> hold")  # nothing has come since
            up.interrupt(up.nodes())
            time.sleep(1.6)
            with pytest.raises(UserError, match="/so100/joint_states has been silent"):
                robot.send(begun)
        finally:
            robot.disconnect()
    with pytest.raises(UserError, match="not connected"):
        robot.observation()


def _refused(rival: TopicRobot) -> str:
    """Return why a second program may not connect; it tries again where the machine was too busy to find the first."""
    for _ in range(3):
        try:
            rival.connect()
        except UserError as error:
            return str(error)
        rival.disconnect()
    return ""


def test_a_policy_on_a_server_moves_an_arm_until_the_server_is_gone(listener: Listener) -> None:
    names, wanted = [], np.array([0.5, 1.2, -1.0, 0.8, 1.2, 0.3])

    def approach(seen: dict[str, Any]) -> np.ndarray:
        names[:] = [name for name in seen if name.endswith(".pos")]
        here = np.array([seen[name] for name in names])
        return here + (wanted - here) * np.linspace(0.05, 1.0, 30)[:, None]

    states = listener.hear(topics.JOINT_STATES, robot="so100")
    modes = listener.hear(topics.GUARD_MODE, "latched", robot="so100")
    server = PolicyServer(approach)
    uri = f"lerobot://127.0.0.1:{server.port}?pretrained=/policy&actions=30&timeout=5"
    with Up("deploy", "--robot", "so100", "--backend", "mujoco", "--commander", uri) as up:
        try:
            up.until("disarmed -> policy")

            def there() -> bool:
                return bool(states) and np.allclose(np.array(states[-1].position), wanted, atol=0.05)

            listener.until(there, "the posture that the policy wants")
        finally:
            server.stop()
        up.until("does not serve")
        listener.until(lambda: modes[-1].data != "policy", "the guard's takeover")
        assert there(), "the guard holds it where it was"
        assert up.interrupt(up.nodes()) == 130, up.seen
    assert list(states[-1].name) == [name.removesuffix(".pos") for name in names]
