"""Several robots of one simulation over topics: namespaces, commands, collisions, time, resets, refusals."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from std_srvs.srv import Trigger

from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import stamp_to_ns
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.robot import RESET_JUMP_NS, RobotNode
from tests.support.ros import Listener

pytestmark = pytest.mark.integration

ROBOT = load_quadrotor("crazyflie")
JOINTS = topics.type_of(topics.ROTOR_COMMAND)
HOVER = [ROBOT.hover_speed_rad_s] * 4
PERIOD_NS = round(1e9 / ROBOT.control_rate_hz)

_BULLET = pytest.mark.skipif(importlib.util.find_spec("pybullet") is None, reason="PyBullet is not installed")
ENGINES = pytest.mark.parametrize("engine", ["mujoco", pytest.param("pybullet", marks=_BULLET)])


class Fleet:
    """A robot node with several robots in this process, and commanders beside it."""

    def __init__(self, listener: Listener, *names: str, **overrides: Any) -> None:
        self.listener, self.names = listener, names
        self.node = RobotNode(
            overrides={"robots": names, "noise_seed": -1, "lock_step": True, **overrides}, context=listener.context
        )
        self.odometry = {name: listener.hear(topics.ODOM, depth=200, robot=name) for name in names}
        self.senders = {
            name: listener.node.create_publisher(JOINTS, f"{name}/{topics.ROTOR_COMMAND}", topics.quality("command"))
            for name in names
        }
        listener.executor.add_node(self.node)
        self.node.start()
        listener.until(
            lambda: all(self.odometry.values()) and all(s.get_subscription_count() for s in self.senders.values()),
            "the first observations",
        )

    def stamp(self, name: str) -> int:
        return stamp_to_ns(self.odometry[name][-1].header.stamp)

    def answer(self, name: str, speeds: list[float]) -> None:
        """Answer a robot's last observation."""
        message = JOINTS(name=list(ROBOT.rotor_names) if speeds else [], velocity=speeds)
        message.header.stamp = self.odometry[name][-1].header.stamp
        self.senders[name].publish(message)

    def fly(self, periods: int, speeds: Callable[[str], list[float]] = lambda name: HOVER) -> None:
        """Answer everything for some periods of lock step."""
        for _ in range(periods):
            before = {name: self.stamp(name) for name in self.names}
            for name in self.names:
                self.answer(name, speeds(name))
            self.listener.until(lambda before=before: all(self.stamp(n) > before[n] for n in before), "a period")

    def position(self, name: str) -> np.ndarray:
        p = self.odometry[name][-1].pose.pose.position
        return np.array([p.x, p.y, p.z])

    def close(self) -> None:
        self.node.stop()
        self.listener.executor.remove_node(self.node)
        self.node.destroy_node()


@pytest.fixture
def fleet(listener: Listener) -> Iterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def make(*names: str, **overrides: Any) -> Fleet:
        made.append(Fleet(listener, *names, **overrides))
        return made[-1]

    yield make
    for one in made:
        one.close()


@ENGINES
def test_each_of_three_robots_has_its_topics_frames_and_commands(fleet: Callable[..., Fleet], engine: str) -> None:
    three = fleet("cf1", "cf2", "cf3", backend=engine, start_height_m=1.0)
    starts = {name: three.position(name) for name in three.names}
    assert len({tuple(p[:2]) for p in starts.values()}) == 3
    harder = {"cf1": 0.9, "cf2": 1.0, "cf3": 1.1}
    three.fly(30, lambda name: [harder[name] * speed for speed in HOVER])
    rise = {name: three.position(name)[2] - starts[name][2] for name in three.names}
    assert rise["cf1"] < -0.01 < rise["cf2"] < 0.01 < rise["cf3"]
    for name, heard in three.odometry.items():
        assert heard[-1].header.frame_id == "odom" and heard[-1].child_frame_id == f"{name}/base_link"
    assert three.stamp("cf1") == three.stamp("cf2") == three.stamp("cf3")  # one time for all


@ENGINES
def test_two_robots_that_meet_collide(fleet: Callable[..., Fleet], engine: str) -> None:
    two = fleet("low", "high", backend=engine, start_positions_m=(0.0, 0.0, 0.0, 0.0, 0.0, 0.5))
    two.fly(60, lambda name: [] if name == "high" else [0.0] * 4)  # the upper one falls on the lower one
    low, high = two.position("low"), two.position("high")
    apart = np.linalg.norm(high - low)
    assert high[2] < 0.4 and apart > 0.02, (low, high)
    # neither is inside the other, nor is the upper one where it would lie without the other
    assert high[2] > 1.5 * low[2] or np.linalg.norm((high - low)[:2]) > 0.1


def test_lock_step_waits_for_all_and_goes_on_once_all_have_answered(fleet: Callable[..., Fleet]) -> None:
    two = fleet("cf1", "cf2", start_height_m=1.0)
    begin = two.stamp("cf1")
    two.answer("cf1", HOVER)
    two.answer("cf1", HOVER)  # twice is once
    two.listener.spin(0.15)
    assert two.stamp("cf1") == two.stamp("cf2") == begin
    two.answer("cf2", HOVER)
    two.listener.until(lambda: two.stamp("cf2") > begin, "the period")
    two.listener.spin(0.1)
    assert two.stamp("cf1") == two.stamp("cf2") == begin + PERIOD_NS


def test_lock_step_goes_on_without_one_that_falls_silent_and_with_it_again(fleet: Callable[..., Fleet]) -> None:
    two = fleet("cf1", "cf2", start_height_m=1.0, lock_step_timeout_s=0.3)
    two.fly(3)
    begin = two.stamp("cf1")
    two.answer("cf1", HOVER)
    two.listener.until(lambda: two.stamp("cf1") > begin, "the period without cf2")
    assert two.node.status()[1]["cf2/watchdog"] == 1 and not two.node.status()[1]["cf2/flying"]
    assert two.node.status()[1]["cf1/flying"]
    two.answer("cf2", HOVER)
    two.listener.until(lambda: two.node.status()[1]["cf2/flying"], "cf2's return")
    now = two.stamp("cf1")
    two.listener.spin(0.1)
    assert two.stamp("cf1") == now  # its answer is waited for, as cf1's is
    two.fly(3)


def test_a_reset_of_one_leaves_the_other(fleet: Callable[..., Fleet]) -> None:
    two = fleet("cf1", "cf2", lock_step=False, start_height_m=1.0, command_timeout_periods=100.0)
    for _ in range(1000):  # in real time, behind which the simulation falls on a busy machine
        for name in two.names:
            two.answer(name, [0.8 * speed for speed in HOVER])
        two.listener.spin(0.02)
        if max(two.position(name)[2] for name in two.names) < 0.9:
            break
    sunk = two.position("cf2")[2]
    assert two.position("cf1")[2] < 0.95 and sunk < 0.95
    before, heard = two.stamp("cf1"), len(two.odometry["cf1"])
    assert two.listener.call(Trigger, "cf1/reset", Trigger.Request()).success
    two.listener.until(lambda: two.stamp("cf1") > before + RESET_JUMP_NS // 2, "the reset")
    stamps = [stamp_to_ns(message.header.stamp) for message in two.odometry["cf1"][heard - 1 :]]
    assert max(np.diff(stamps)) >= RESET_JUMP_NS * 0.99  # policy and guard take it for another flight
    assert two.position("cf1")[2] == pytest.approx(1.0, abs=0.05)
    assert two.position("cf2")[2] <= sunk
    others = np.diff([stamp_to_ns(message.header.stamp) for message in two.odometry["cf2"]])
    assert min(others) > 0 and max(others) < RESET_JUMP_NS // 2


def test_in_lock_step_the_others_go_on_while_one_comes_back_from_its_reset(fleet: Callable[..., Fleet]) -> None:
    two = fleet("cf1", "cf2", start_height_m=1.0, lock_step_timeout_s=0.3)
    two.fly(20, lambda name: [0.7 * speed for speed in HOVER])
    assert two.position("cf1")[2] < 0.97
    before = two.stamp("cf1")
    assert two.listener.call(Trigger, "cf1/reset", Trigger.Request()).success
    for _ in range(round(RESET_JUMP_NS / PERIOD_NS)):
        now = two.stamp("cf2")
        two.answer("cf2", HOVER)
        two.listener.until(lambda now=now: two.stamp("cf2") == now + PERIOD_NS, "a period of cf2 alone")
    two.listener.until(lambda: two.stamp("cf1") > before, "cf1's return")
    assert two.stamp("cf1") - before >= RESET_JUMP_NS
    assert two.position("cf1")[2] == pytest.approx(1.0, abs=1e-6)
    two.fly(2)  # both are waited for again

    two.answer("cf1", HOVER)  # cf2 falls silent, so that nobody is left to wait for while cf1 is reset
    two.listener.until(lambda: two.node.status()[1]["cf2/watchdog"] == 1, "cf2's end")
    before = two.stamp("cf1")
    assert two.listener.call(Trigger, "cf1/reset", Trigger.Request()).success
    two.listener.until(lambda: two.stamp("cf1") >= before + RESET_JUMP_NS, "cf1's return")


def test_names_come_from_the_robot_where_only_their_number_is_given(listener: Listener) -> None:
    node = RobotNode(overrides={"count": 2}, context=listener.context)
    node.start()
    assert [robot.name for robot in node.robots] == ["crazyflie1", "crazyflie2"]
    node.stop()
    node.destroy_node()


@pytest.mark.skipif(importlib.util.find_spec("isaacsim") is not None, reason="Isaac Sim is installed")
def test_an_engine_that_is_not_installed_says_what_to_install(listener: Listener) -> None:
    node = RobotNode(overrides={"backend": "isaac", "count": 2}, context=listener.context)
    with pytest.raises(UserError, match=r"not installed.*rlstack\[isaac\]"):
        node.start()
    node.destroy_node()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"world": "warehous"}, "warehouse"),
        ({"robots": ("cf1", "cf1")}, "a name of its own"),
        ({"robots": ("1cf",)}, "'1cf' is not allowed"),
        ({"robots": ("cf1", "cf2"), "count": 3}, "leave one of the two out"),
        ({"count": 2, "start_positions_m": (0.0, 0.0, 0.0)}, "must be 6"),
        ({"physics_rate_hz": 10.0}, "physics_rate_hz: 10.0 is not allowed"),
    ],
)
def test_what_makes_no_sense_is_refused(listener: Listener, overrides: dict[str, Any], said: str) -> None:
    node = RobotNode(overrides=overrides, context=listener.context)
    with pytest.raises(UserError, match=said):
        node.start()
    node.destroy_node()
