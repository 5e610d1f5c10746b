"""Operational-space control: joint torques that give an arm's tool a wanted acceleration (Khatib 1987).

The tool behaves as a mass on a spring and a damper, equal in each direction, whatever the arm's own inertia; a
null-space torque holds the joints near their rest pose. Near singularities the tool's inertia is damped, so that
torques stay bounded. For torque-controlled arms; numpy, N robots at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlstack.arrays import Array
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.dynamics import ArmDynamics
from rlstack.robots.kinematics import tool_motion
from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class SpaceGains:
    """Gains of the tool's task space and of the joints' null space."""

    bandwidth_rad_s: float = value(20.0, unit="rad/s", above=0.0)
    """Natural frequency of the tool about its target."""
    damping_ratio: float = value(1.0, above=0.0)
    posture_rad_s: float = value(5.0, unit="rad/s", at_least=0.0)
    """Natural frequency of the joints about their rest pose, in the null space."""
    singular: float = value(0.05, above=0.0)
    """Directions in which the tool's mobility, 1/kg or 1/(kg m^2), is below the square of this are not controlled."""


class OperationalSpace:
    """Operational-space controller of one arm.

    Args:
        robot: The arm.
        gains: Stiffness and damping.
        link: The controlled link; by default the arm's ``tool_link``.

    Raises:
        UserError: The model cannot be read, has no such link, or the robot file does not name a joint on the way.
    """

    def __init__(self, robot: Manipulator, gains: SpaceGains | None = None, link: str | None = None) -> None:
        self._dynamics, self._gains = ArmDynamics(robot, link or ""), gains or SpaceGains()
        self.chain = self._dynamics.chain
        drives = [robot.drives[k] for k in self.chain.index]
        self._rest = np.array([drive.rest for drive in drives])
        self._most = np.array([drive.effort_max for drive in drives])
        # an arm with its own gravity compensation must not be compensated twice
        self._gravity = 0.0 if robot.gravity_compensation else 9.81

    def effort(
        self,
        joints: Array,
        velocity: Array,
        position: Array,
        rotation: Array,
        linear: Array | None = None,
        angular: Array | None = None,
    ) -> Array:
        """Return joint torques or forces (N, J), within the robot file's limits.

        Args:
            joints: (N, J) rad or m, the chain's positions.
            velocity: (N, J) rad/s or m/s.
            position: (N, 3) m of the tool in base_link, wanted.
            rotation: (N, 3, 3) from the tool to base_link, wanted.
            linear: (N, 3) m/s wanted; None: at rest.
            angular: (N, 3) rad/s about the axes of base_link; None: at rest.
        """
        gains = self._gains
        tool = tool_motion(self.chain.screws, joints)
        jacobian, moving = tool.jacobian, (tool.jacobian @ velocity[:, :, None])[:, :, 0]
        none = np.zeros((len(joints), 3))
        wanted = np.concatenate([none if linear is None else linear, none if angular is None else angular], axis=1)
        off = np.concatenate([position - tool.position, turn_between(tool.rotation, rotation)], axis=1)
        damping = 2.0 * gains.damping_ratio * gains.bandwidth_rad_s
        acceleration = gains.bandwidth_rad_s**2 * off + damping * (wanted - moving)
        mass = self._dynamics.mass_matrix(joints)
        mobile = np.linalg.solve(mass, jacobian.swapaxes(1, 2))  # (N, J, 6)
        felt = np.linalg.inv(jacobian @ mobile + gains.singular**2 * np.eye(6))
        force = felt @ acceleration[:, :, None]
        torque = (jacobian.swapaxes(1, 2) @ force)[:, :, 0] + self._dynamics.bias(joints, velocity, self._gravity)
        rate = gains.posture_rad_s
        aside = mass @ (rate**2 * (self._rest - joints) - 2.0 * rate * velocity)[:, :, None]
        aside = aside - jacobian.swapaxes(1, 2) @ (felt @ (mobile.swapaxes(1, 2) @ aside))
        return np.clip(torque + aside[:, :, 0], -self._most, self._most)


def turn_between(now: Array, wanted: Array) -> Array:
    """Return the rotation vector (N, 3) rad, in base_link, from one rotation matrix (N, 3, 3) to another."""
    left = wanted @ now.swapaxes(1, 2)
    axis = np.stack([left[:, 2, 1] - left[:, 1, 2], left[:, 0, 2] - left[:, 2, 0], left[:, 1, 0] - left[:, 0, 1]], 1)
    sine = 0.5 * np.linalg.norm(axis, axis=1)
    angle = np.arctan2(sine, 0.5 * (np.trace(left, axis1=1, axis2=2) - 1.0))
    # at half a turn this formula has no unique axis: take the dominant column
    column = np.take_along_axis(left + np.eye(3), np.argmax(np.einsum("nii->ni", left), axis=1)[:, None, None], 2)[
        :, :, 0
    ]
    flat = column / np.maximum(np.linalg.norm(column, axis=1, keepdims=True), 1e-12)
    straight = axis / np.maximum(2.0 * sine, 1e-12)[:, None]
    chosen = np.where(((sine < 1e-6) & (angle > 1.0))[:, None], flat, straight)
    return np.asarray(chosen * angle[:, None])
