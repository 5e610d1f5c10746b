"""A Panda in panda-gym (PyBullet, 500 Hz), by its own classes: its simulation, its Panda, its joint control.

Its conventions: the seven joints and two fingers by index in the order of the URDF (0 to 6, 9, 10), rad and m;
targets are held by PyBullet's position control with the efforts that panda-gym allows, which follows them at once. The
URDF is pybullet_data's, with inertias that PyBullet makes of the links' shapes. "theirs" is all that. With "ours" the
gains, efforts and gravity compensation of the policy's robot hold the targets, by torques at 2 kHz, and links have its
masses and moments of inertia; their centres of mass stay the URDF's.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import pybullet
from panda_gym.envs.robots.panda import Panda
from panda_gym.pybullet import PyBullet
from reaches import OURS, TOOL_M, Array, main

LINK7, TORQUE_STEP_S = 6, 1.0 / 2000.0


class PandaGym:
    """One Panda."""

    def __init__(self, parameters: str, job: Mapping[str, Any], rate_hz: float) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._sim = PyBullet(render_mode="rgb_array", n_substeps=1)
        self._panda = Panda(self._sim, control_type="joints")
        self._client, self._body = self._sim.physics_client, self._sim._bodies_idx["panda"]
        self._index = [int(k) for k in self._panda.joint_indices]
        self._ours = parameters == OURS
        if self._ours:  # explicit damping of light links needs shorter steps than 1/500 s
            self._sim.timestep = TORQUE_STEP_S
            self._client.setTimeStep(TORQUE_STEP_S)
        self._steps = round(1.0 / (rate_hz * self._sim.timestep))
        robot = job["robot"]
        self._stiffness, self._damping, self._effort = (
            np.array(robot[name]) for name in ("stiffness", "damping", "effort_max")
        )
        if self._ours:
            self._change(robot["inertials"])
            # its motors are off, torques take their place
            self._client.setJointMotorControlArray(
                self._body, self._index, pybullet.VELOCITY_CONTROL, forces=[0.0] * len(self._index)
            )

    def _change(self, inertials: Mapping[str, Any]) -> None:
        """Give its links the masses and moments of inertia of the policy's robot."""
        for link in range(self._client.getNumJoints(self._body)):
            name = self._client.getJointInfo(self._body, link)[12].decode()
            if name in inertials:
                self._client.changeDynamics(
                    self._body,
                    link,
                    mass=inertials[name]["mass_kg"],
                    localInertiaDiagonal=inertials[name]["inertia_kg_m2"][:3],
                )

    def reset(self, joints: Array) -> None:
        """See :class:`reaches.Arm`."""
        self._panda.set_joint_angles(joints)

    def state(self) -> tuple[Array, Array, Array]:
        """See :class:`reaches.Arm`."""
        states = self._client.getJointStates(self._body, self._index)
        link = self._client.getLinkState(self._body, LINK7, computeForwardKinematics=True)
        turn = np.array(self._client.getMatrixFromQuaternion(link[5])).reshape(3, 3)
        tool = np.array(link[4]) + turn @ [0.0, 0.0, TOOL_M]
        return np.array([s[0] for s in states]), np.array([s[1] for s in states]), tool

    def step(self, target: Array) -> None:
        """See :class:`reaches.Arm`."""
        for _ in range(self._steps):
            if self._ours:
                position, velocity, _ = self.state()
                weight = self._client.calculateInverseDynamics(self._body, list(position), [0.0] * 9, [0.0] * 9)
                effort = self._stiffness * (target - position) - self._damping * velocity
                effort = np.clip(effort + weight, -self._effort, self._effort)
                self._client.setJointMotorControlArray(
                    self._body, self._index, pybullet.TORQUE_CONTROL, forces=effort.tolist()
                )
            else:
                self._panda.control_joints(target)
            self._sim.step()


if __name__ == "__main__":
    main(PandaGym, lambda: {"panda-gym": version("panda-gym"), "pybullet": version("pybullet")})
