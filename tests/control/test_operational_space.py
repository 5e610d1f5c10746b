"""Operational-space control in MuJoCo: the tool is a mass on a spring, and nothing blows up at singularities."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from rlstack.control.inverse_kinematics import limits_of, reach
from rlstack.control.operational_space import OperationalSpace, SpaceGains, turn_between
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots import load_robot
from rlstack.robots.kinematics import tool_motion
from rlstack.robots.mjcf import mujoco_spec


def arm(name: str) -> Manipulator:
    robot = load_robot(name)
    assert isinstance(robot, Manipulator)
    return robot


class Torqued:
    """One arm in MuJoCo that is driven by torques alone; what hangs on other joints is held."""

    def __init__(self, robot: Manipulator, joints: np.ndarray, period_s: float = 0.002) -> None:
        spec = mujoco_spec(robot, floor=False, timestep_s=period_s)
        self.model = spec.compile()
        self.count = len(joints)
        self.model.actuator_gainprm[: self.count] = 0.0
        self.model.actuator_biasprm[: self.count] = 0.0
        self.data = mujoco.MjData(self.model)
        self.data.qpos[: self.count] = joints
        mujoco.mj_forward(self.model, self.data)

    @property
    def state(self) -> tuple[np.ndarray, np.ndarray]:
        return self.data.qpos[None, : self.count].copy(), self.data.qvel[None, : self.count].copy()

    def push(self, effort: np.ndarray) -> None:
        self.data.qfrc_applied[: self.count] = effort[0]
        mujoco.mj_step(self.model, self.data)


def test_the_tool_comes_to_its_target_like_a_mass_on_a_spring_and_a_damper() -> None:
    robot = arm("panda")
    control = OperationalSpace(robot)
    rest = np.array([drive.rest for drive in robot.drives[:7]])
    joints, found = reach(
        control.chain, limits_of(robot, control.chain), np.array([[0.5, 0.1, 0.3]]), np.zeros(1), rest
    )
    assert found[0]
    plant = Torqued(robot, joints[0])
    tool = tool_motion(control.chain.screws, joints)
    wanted = tool.position + np.array([[0.05, -0.08, 0.06]])
    turned = Rotation.from_rotvec([0.2, -0.1, 0.3]).as_matrix() @ tool.rotation
    rate, way = SpaceGains().bandwidth_rad_s, np.linalg.norm(wanted - tool.position)
    for k in range(250):
        q, v = plant.state
        left = np.linalg.norm(wanted - tool_motion(control.chain.screws, q).position)
        time_s = 0.002 * k
        # critically damped: (1 + w t) exp(-w t) of the way is left
        assert abs(left - way * (1.0 + rate * time_s) * np.exp(-rate * time_s)) < 0.06 * way
        plant.push(control.effort(q, v, wanted, turned))
    tool = tool_motion(control.chain.screws, plant.state[0])
    np.testing.assert_allclose(tool.position, wanted, atol=1e-3)
    assert np.linalg.norm(turn_between(tool.rotation, turned)) < 5e-3


def test_an_arm_without_gravity_compensation_is_held_up_by_the_controller() -> None:
    robot = replace(arm("ur5e"), gravity_compensation=False)
    control = OperationalSpace(robot)
    rest = np.array([[drive.rest for drive in robot.drives[:6]]])
    plant = Torqued(robot, rest[0])
    tool = tool_motion(control.chain.screws, rest)
    for _ in range(100):
        plant.push(control.effort(*plant.state, tool.position, tool.rotation))
    np.testing.assert_allclose(tool_motion(control.chain.screws, plant.state[0]).position, tool.position, atol=2e-3)


CONTROL = OperationalSpace(arm("panda"))
MOST = np.array([drive.effort_max for drive in arm("panda").drives[:7]])
LOWER, UPPER = (np.array([getattr(drive, end) for drive in arm("panda").drives[:7]]) for end in ("lower", "upper"))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_torques_are_finite_and_within_limits_wherever_the_arm_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    joints = rng.uniform(LOWER, UPPER, (3, 7))
    joints[0] = np.clip(0.0, LOWER, UPPER)  # stretched: singular
    rotation = Rotation.random(3, random_state=seed % 2**31).as_matrix()
    effort = CONTROL.effort(joints, rng.normal(size=(3, 7)), rng.uniform(-1.0, 1.0, (3, 3)), rotation)
    assert np.isfinite(effort).all() and (np.abs(effort) <= MOST).all()


@settings(deadline=None)
@given(st.integers(0, 2**31 - 1), st.floats(0.0, np.pi))
def test_a_turn_is_axis_times_angle(seed: int, angle: float) -> None:
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    now = Rotation.random(1, random_state=seed).as_matrix()
    wanted = Rotation.from_rotvec(angle * axis).as_matrix() @ now
    turn = turn_between(now, wanted)[0]
    assert abs(np.linalg.norm(turn) - angle) < 1e-6
    np.testing.assert_allclose(Rotation.from_rotvec(turn).as_matrix() @ now[0], wanted[0], atol=1e-6)
