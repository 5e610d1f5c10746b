"""Joint drives in PyBullet: the robot file's gains and limits, on PyBullet's velocity motors.

A drive's effort is ``stiffness * (target - position) - damping * velocity``, or ``damping * (target - velocity)``.
Integrated explicitly, it would be unstable at usual steps for a light wheel in the air. With the position at the step's
end, the first is ``b * (goal - velocity)``, too, with b = damping + step * stiffness and goal = stiffness * (target -
position) / b. PyBullet's motor has a target velocity and an effort limit but no slope, so its limit is set to
``b * |goal - velocity|``, within the file's. That equals the drive's effort unless the joint reaches the goal within
the step, where the motor stops. The goal is clipped to the joint's velocity limit.
"""

from __future__ import annotations

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.robots import RobotSpec
from rlstack.sim.backends.pybullet.armature import Armature, carry
from rlstack.sim.backends.pybullet.server import Server
from rlstack.sim.engine import DriveMode, JointState


class JointMotors:
    """The driven joints of one robot, in the robot file's order; none for a quadrotor.

    Args:
        server: The physics server.
        body: The robot's body.
        robot: The robot with these ``drives``.

    Raises:
        UserError: A joint of the file is not in the model; the message lists the model's joints.
    """

    def __init__(self, server: Server, body: int, robot: RobotSpec) -> None:
        bullet = server.bullet
        drives = robot.drives
        self._server, self._body = server, body
        self.names = tuple(drive.name for drive in drives)
        known = {}
        for number in range(bullet.getNumJoints(body)):
            info = bullet.getJointInfo(body, number)
            if info[2] != bullet.JOINT_FIXED:
                known[info[1].decode()] = info
                # PyBullet puts a braking motor on every joint.
                bullet.setJointMotorControl2(body, number, bullet.VELOCITY_CONTROL, force=0.0)
        if missing := [name for name in self.names if name not in known]:
            raise UserError(f"{robot.name}: the model has no joint {', '.join(missing)}; it has {', '.join(known)}.")
        self._numbers = [int(known[name][0]) for name in self.names]
        # in PyBullet's order, as its inverse dynamics require
        self._moving = sorted(int(info[0]) for info in known.values())
        self._compensated = robot.gravity_compensation
        self._mode: DriveMode | None = None
        self._own_position = np.array([drive.mode == "position" for drive in drives], dtype=bool)
        self._driven = np.array([drive.mode != "free" for drive in drives], dtype=bool)
        self._target = self._effort = np.zeros(len(drives))
        self._stiffness = np.array([drive.stiffness for drive in drives])
        self._damping = np.array([drive.damping for drive in drives])
        self._fastest = np.array([drive.velocity_max for drive in drives])
        self._strongest = np.array([drive.effort_max for drive in drives])
        heavy = {int(known[drive.name][0]): drive for drive in drives if drive.armature > 0.0}
        self._armature: Armature | None = None
        if heavy and robot.fixed_base:
            self._armature = Armature(server, body, self._moving, dict(zip(self._numbers, drives)))
        else:
            for number, drive in heavy.items():
                carry(server, body, number, drive.armature)

    def state(self) -> JointState:
        """Return the joints' state."""
        if not self.names:
            return JointState(np.zeros(0), np.zeros(0), np.zeros(0))
        position, velocity, braked = self._read()
        return JointState(position, velocity, self._effort.copy() if self._mode == "effort" else braked)

    def place(self, position: Array, velocity: Array) -> None:
        """Set the joints' state."""
        for number, q, v in zip(self._numbers, position.tolist(), velocity.tolist()):
            self._server.bullet.resetJointState(self._body, number, q, v)
        if self._armature is not None:
            self._armature.forget()

    def set(self, mode: DriveMode, target: Array) -> None:
        """Set the joints' target from the next step on."""
        bullet = self._server.bullet
        if mode == "effort" and self._mode != "effort":
            self._command(bullet.VELOCITY_CONTROL, np.zeros(len(self.names)), np.zeros(len(self.names)))
        self._mode, self._target = mode, np.array(target, dtype=float)

    def prepare(self, step_s: float) -> None:
        """Command PyBullet's motors for the next step."""
        if self._mode is None:
            return
        bullet = self._server.bullet
        if self._mode == "effort":
            self._effort = np.clip(self._target, -self._strongest, self._strongest)
            self._command(bullet.TORQUE_CONTROL, None, self._effort)
            self._add(step_s)
            return
        position, velocity, _ = self._read()
        by_position = self._own_position if self._mode == "file" else np.full(len(self.names), self._mode == "position")
        slope = self._damping + np.where(by_position, step_s * self._stiffness, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            pulled = np.where(slope > 0.0, self._stiffness * (self._target - position) / slope, 0.0)
        wanted = np.where(by_position, pulled, self._target)
        goal = np.clip(wanted, -self._fastest, self._fastest)
        # a blocked finger pulls in proportion to its position error, however slowly it may close: only speed is limited
        away = np.where(by_position, np.abs(wanted - velocity), 0.0)
        effort = np.minimum(slope * np.maximum(away, np.abs(goal - velocity)), self._strongest)
        self._command(bullet.VELOCITY_CONTROL, goal, np.where(self._driven, effort, 0.0))
        self._add(step_s)

    def _add(self, step_s: float) -> None:
        """Apply torques besides the drives' efforts: gravity compensation and the armature's correction."""
        if self._armature is not None:
            added = self._armature.torque(step_s, self._compensated).tolist()
        elif self._compensated:
            added = self._lifting()
        else:
            return
        self._server.bullet.setJointMotorControlArray(
            self._body, self._moving, self._server.bullet.TORQUE_CONTROL, forces=added
        )

    def _lifting(self) -> list[float]:
        # PyBullet refuses this for links with rotor inertia, which no rigid body alone could have
        bullet = self._server.bullet
        states = bullet.getJointStates(self._body, self._moving)
        still = [0.0] * len(states)
        positions = [state[0] for state in states]
        return list(bullet.calculateInverseDynamics(self._body, positions, still, still))

    def _read(self) -> tuple[Array, Array, Array]:
        states = self._server.bullet.getJointStates(self._body, self._numbers)
        position, velocity, effort = np.array([(q, v, e) for q, v, _, e in states]).T
        return position, velocity, effort

    def _command(self, mode: int, goal: Array | None, effort: Array) -> None:
        goals = {} if goal is None else {"targetVelocities": goal.tolist()}
        self._server.bullet.setJointMotorControlArray(
            self._body,
            self._numbers,
            mode,
            forces=effort.tolist(),
            **goals,
        )
