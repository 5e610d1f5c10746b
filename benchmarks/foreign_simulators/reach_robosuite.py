"""A Panda in robosuite (MuJoCo, 500 Hz): its model of the arm, its gripper, its joint impedance.

Its conventions: the base stands 0.912 m up and off the origin, so that goals and tool are brought into the base's
frame; joints ``robot0_joint1`` to 7; a joint position controller with a stiffness of 50 s^-2 times the joint-space
inertia (its default), critically damped, with gravity compensated, whose inputs are taken as absolute targets. Its
tool site is not the policy's tool point, so this is placed on the seventh link; fingers are told to stay. "ours" has
the stiffness and damping of the policy's robot as plain torques instead, on robosuite's links.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import robosuite
from reaches import OURS, TOOL_M, Array, main
from robosuite.controllers import load_composite_controller_config

FINGER_M = 0.04


class Robosuite:
    """The Panda of the environment ``Lift``, far from whose table nothing is touched."""

    def __init__(self, parameters: str, job: Mapping[str, Any], rate_hz: float) -> None:
        config = load_composite_controller_config(controller="BASIC", robot="Panda")
        part = config["body_parts"]["right"]
        gripper = part["gripper"]
        config["body_parts"] = {
            "right": {
                "type": "JOINT_POSITION",
                "input_type": "absolute",
                "input_max": 1,
                "input_min": -1,
                "output_max": 1,
                "output_min": -1,
                "kp": 50,
                "damping_ratio": 1,
                "impedance_mode": "fixed",
                "kp_limits": [0, 300],
                "damping_ratio_limits": [0, 10],
                "qpos_limits": None,
                "interpolation": None,
                "ramp_ratio": 0.2,
                "gripper": gripper,
            }
        }
        with contextlib.redirect_stdout(io.StringIO()):
            self._environment = robosuite.make(
                "Lift",
                robots="Panda",
                controller_configs=config,
                has_renderer=False,
                has_offscreen_renderer=False,
                use_camera_obs=False,
                control_freq=rate_hz,
                ignore_done=True,
                hard_reset=False,
            )
            self._environment.reset()
        self._robot = self._environment.robots[0]
        self._position = np.array(self._robot._ref_joint_pos_indexes)
        self._velocity = np.array(self._robot._ref_joint_vel_indexes)
        self._ours, numbers = parameters == OURS, job["robot"]
        self._stiffness, self._damping, self._effort = (
            np.array(numbers[name])[:7] for name in ("stiffness", "damping", "effort_max")
        )
        self._target = np.zeros(7)
        if self._ours:
            self._robot.part_controllers["right"].run_controller = self._torques

    def _torques(self) -> Array:
        """Return the torques of the policy's robot's impedance, with what robosuite compensates."""
        data = self._environment.sim.data
        effort = self._stiffness * (self._target - data.qpos[self._position])
        effort = effort - self._damping * data.qvel[self._velocity] + data.qfrc_bias[self._velocity]
        return np.asarray(np.clip(effort, -self._effort, self._effort))

    def reset(self, joints: Array) -> None:
        """See :class:`reaches.Arm`."""
        sim = self._environment.sim
        # the table and the block are out of the way
        self._environment.timestep = 0
        sim.data.qvel[:] = 0.0
        sim.data.qpos[self._position] = joints[:7]
        sim.data.qacc_warmstart[:] = 0.0
        sim.forward()
        controller = self._robot.part_controllers["right"]
        controller.update(force=True)
        controller.reset_goal()

    def state(self) -> tuple[Array, Array, Array]:
        """See :class:`reaches.Arm`."""
        sim = self._environment.sim
        data, model = sim.data, sim.model
        base, link = model.body_name2id("robot0_link0"), model.body_name2id("robot0_link7")
        turn, base_turn = data.body_xmat[link].reshape(3, 3), data.body_xmat[base].reshape(3, 3)
        tool = base_turn.T @ (data.body_xpos[link] + turn @ [0.0, 0.0, TOOL_M] - data.body_xpos[base])
        fingers = np.full(2, 0.0)
        return (
            np.concatenate([data.qpos[self._position], fingers]),
            np.concatenate([data.qvel[self._velocity], fingers]),
            np.asarray(tool),
        )

    def step(self, target: Array) -> None:
        """See :class:`reaches.Arm`."""
        self._target = target[:7]
        self._environment.step(np.append(target[:7], 1.0))


if __name__ == "__main__":
    main(Robosuite, lambda: {"robosuite": version("robosuite"), "mujoco": version("mujoco")})
