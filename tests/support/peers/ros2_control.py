"""A UR5e's arm under ros2_control: a node that behaves as its two controllers of positions do, and says joint states.

After the documentation of ``joint_trajectory_controller`` and ``forward_command_controller``: a trajectory has all
joints by name in any order, its points rise in time, and the way to the last one is a spline from where the set-point
is; one that is refused changes nothing, and so do plain values of another number. Joint states come a hundred times a
second, in another order, with a joint that is nobody's. What it holds it holds for ever.
"""

from __future__ import annotations

import array
import threading
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from rlstack.arrays import Array
from rlstack.interfaces import topics
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.urdf import to_urdf
from tests.conftest import own_domain
from tests.support.peers import Misfit

STEP_S, LAG_S, SPEED = 0.01, 0.03, 3.2
JTC, FORWARD = "joint_trajectory_controller", "forward_position_controller"


class Ros2ControlPeer:
    """One arm on a ROS domain of its own.

    Args:
        controller: Which of its controllers the URI names.
        domain: ROS domain; by default one that no other test holds.
    """

    def __init__(self, controller: str = JTC, domain: int = -1) -> None:
        self.robot = Manipulator.load("ur5e")
        self.controller = controller
        self.names = [joint.name for joint in self.robot.drives[:6]]
        self.joints = np.array([joint.rest for joint in self.robot.drives[:6]]) + 0.02
        self.speeds = np.zeros(6)
        self.sag = 0.0
        """By how much every joint stays behind its set-point, rad, as under a load."""
        self.powered = False
        self.refused: list[str] = []
        self._domain = domain
        self._goal, self._from = self.joints.copy(), self.joints.copy()
        self._began_s, self._takes_s = 0.0, 0.0
        self._said = [self.joints.copy()]
        self._lost = self._over = False
        self._stack = ExitStack()

    @property
    def goal(self) -> Array:
        """Where the joints (6,) were last sent, rad."""
        return np.array(self._goal)

    @property
    def uri(self) -> str:
        return f"ros:///arm/{self.controller}?gripper=fixed&domain={self._domain}&description=/arm/robot_description"

    def __enter__(self) -> Ros2ControlPeer:
        if self._domain < 0:
            self._domain = self._stack.enter_context(own_domain())
        self._context = rclpy.Context()
        rclpy.init(context=self._context, domain_id=self._domain)
        self._executor = SingleThreadedExecutor(context=self._context)
        broadcaster = self._node("joint_state_broadcaster", {})
        self._states = broadcaster.create_publisher(JointState, "/joint_states", 10)
        self._description = broadcaster.create_publisher(String, "robot_description", topics.quality("latched"))
        self._describe(SPEED)
        self._jtc = jtc = self._node(JTC, {"joints": self.names, "command_interfaces": ["position"]})
        jtc.create_subscription(JointTrajectory, f"/arm/{JTC}/joint_trajectory", self._lead, 10)
        forward = self._node(FORWARD, {"joints": self.names[::-1], "interface_name": "position"})
        forward.create_subscription(Float64MultiArray, f"/arm/{FORWARD}/commands", self._pass_on, 10)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._thread.join(5.0)
        nodes = self._executor.get_nodes()
        self._executor.shutdown()
        for node in nodes:
            node.destroy_node()
        self._context.try_shutdown()
        self._stack.close()

    def misfits(self) -> dict[str, Misfit | str]:
        others = [f"other_{name}" for name in self.names]
        topic = f"/arm/{JTC}/joint_trajectory"
        return {
            "in use": Misfit(
                ("/arm/teleoperation already commands", topic),
                lambda: self._node("teleoperation", {}).create_publisher(JointTrajectory, topic, 10),
            ),
            "answers twice": "whoever publishes joint states, each message says all joints",
            "firmware": "messages of ROS have no version",
            "calibration": "it is the hardware interface's",
            "joints": Misfit(
                (", ".join(self.names), ", ".join(others)),
                lambda: self._jtc.set_parameters([Parameter("joints", value=others)]),
            ),
            "limits": Misfit(("2.000 rad/s", "3.142"), lambda: self._describe(2.0)),
            "mass": "a controller knows of no mass",
        }

    def rest(self) -> dict[str, Array]:
        return {"joint_target": np.array([joint.rest for joint in self.robot.drives])}

    def lose_link(self) -> None:
        self._lost = True

    def regain_link(self) -> None:
        self._lost = False

    def send_noise(self, data: bytes) -> None:
        """Say joint states that are none: without names, of another length, not finite."""
        numbers = array.array("d", [float("nan")] * 6)
        for message in (JointState(), JointState(name=self.names), JointState(name=self.names, position=numbers)):
            message.header.stamp = self._now()
            self._states.publish(message)

    def _node(self, name: str, parameters: dict[str, Any]) -> Any:
        node = rclpy.create_node(
            name,
            context=self._context,
            namespace="/arm",
            parameter_overrides=[Parameter(key, value=value) for key, value in parameters.items()],
            automatically_declare_parameters_from_overrides=True,
            use_global_arguments=False,
        )
        self._executor.add_node(node)
        return node

    def write_instead(self, what: str) -> None:
        """Have the trajectory controller command velocities or efforts."""
        self._jtc.set_parameters([Parameter("command_interfaces", value=[what])])

    def _describe(self, speed: float) -> None:
        text = to_urdf(self.robot, meshes="none")
        assert 'velocity="3.141592"' in text
        self._description.publish(String(data=text.replace('velocity="3.141592"', f'velocity="{speed}"')))

    def _now(self) -> Any:
        return self._executor.get_nodes()[0].get_clock().now().to_msg()

    # Controllers -----------------------------------------------------------------------------------------------

    def _lead(self, message: JointTrajectory) -> None:
        if self._lost:
            return
        times = [point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in message.points]
        if sorted(message.joint_names) != sorted(self.names) or not times or times != sorted(times):
            self.refused.append(f"joints {message.joint_names}, times {times}")
            return
        last = message.points[-1].positions
        if len(last) != len(self.names):
            self.refused.append(f"{len(last)} positions")
            return
        self._follow([last[message.joint_names.index(name)] for name in self.names], times[-1])
        self.powered = times[-1] > 0.0  # due at once: held from now on

    def _pass_on(self, message: Float64MultiArray) -> None:
        if self._lost:
            return
        if len(message.data) != len(self.names):
            self.refused.append(f"{len(message.data)} values")
            return
        wanted = np.array(message.data[::-1])
        self._follow(wanted, 0.0)
        self.powered = not any(np.array_equal(wanted, said) for said in self._said)  # where it was: held

    def _follow(self, goal: Any, takes_s: float) -> None:
        self._from, self._goal = self._set_point(), np.array(goal)
        self._began_s, self._takes_s = time.monotonic(), takes_s

    def _set_point(self) -> Array:
        if self._takes_s <= 0.0:
            return self._goal
        share = min((time.monotonic() - self._began_s) / self._takes_s, 1.0)
        return self._from + share * (self._goal - self._from)

    def _run(self) -> None:
        due = last = time.monotonic()
        while not self._over:
            self._executor.spin_once(timeout_sec=max(due - time.monotonic(), 0.0))
            now = time.monotonic()
            if now < due:
                continue
            due, passed, last = max(due + STEP_S, now), now - last, now
            step = (1.0 - np.exp(-passed / LAG_S)) * (self._set_point() - self.sag - self.joints)
            self.joints, self.speeds = self.joints + step, step / max(passed, 1e-6)
            if not self._lost:
                self._say()

    def _say(self) -> None:
        self._said = [*self._said[-100:], self.joints.copy()]
        message = JointState(name=["rail_joint", *self.names[::-1]])
        message.header.stamp = self._now()
        message.position = array.array("d", [0.5, *self.joints[::-1]])
        message.velocity = array.array("d", [0.0, *self.speeds[::-1]])
        self._states.publish(message)


PEER = Ros2ControlPeer
