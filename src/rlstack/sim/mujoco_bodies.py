"""Access to robots' bodies and joints in MuJoCo, as :class:`rlstack.sim.engine.Engine` uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.robots.joints import DrivenJoint
from rlstack.sim.engine import DriveMode, JointState, MassProperties


class FreeBodies:
    """The ``base_link`` bodies of N robots, free or fixed.

    MuJoCo's quaternions are wxyz; a free joint's velocities and forces are linear in the world frame and angular in the
    body frame.

    Args:
        mujoco: The module.
        model: The compiled model.
        data: Its state.
        bodies: Their MuJoCo ids.
    """

    def __init__(self, mujoco: Any, model: Any, data: Any, bodies: Sequence[int]) -> None:
        self._mujoco, self._model, self._data = mujoco, model, data
        self._bodies = np.array(bodies)
        joints = model.body_jntadr[self._bodies]
        free = (model.body_jntnum[self._bodies] == 1) & (model.jnt_type[joints] == mujoco.mjtJoint.mjJNT_FREE)
        self._free: NDArray[np.intp] = np.flatnonzero(free)
        self._fixed: NDArray[np.intp] = np.flatnonzero(~free)
        q = model.jnt_qposadr[joints[free]][:, None] + np.arange(7)
        v = model.jnt_dofadr[joints[free]][:, None] + np.arange(6)
        # views if the robots' free joints are contiguous, as they are unless other joints lie between them
        self._views = len(self._free) == len(bodies) and _follow(q, 7) and _follow(v, 6)
        self._q, self._v = q, v
        if self._views:
            self._pose, self._velocity, self._wrench = (
                flat[place[0, 0] : place[-1, -1] + 1].reshape(place.shape).T
                for flat, place in ((data.qpos, q), (data.qvel, v), (data.qfrc_applied, v))
            )

    def refresh(self, rows: Array) -> None:
        """Write the states (13, N) of all robots."""
        if self._views:
            pose = self._pose
            rows[:3], rows[3:6], rows[6] = pose[:3], pose[4:], pose[3]
            rows[7:] = self._velocity
            return
        pose = self._data.qpos[self._q].T
        rows[:3, self._free], rows[3:6, self._free], rows[6, self._free] = pose[:3], pose[4:], pose[3]
        rows[7:, self._free] = self._data.qvel[self._v].T
        for k in self._fixed:
            body = self._bodies[k]
            w, x, y, z = self._model.body_quat[body]
            rows[:, k] = [*self._model.body_pos[body], x, y, z, w, *[0.0] * 6]

    def place(self, index: int, body: Array) -> None:
        """Set one robot's state (13,)."""
        model, data = self._model, self._data
        pose = np.array([*body[:3], body[6], *body[3:6]])
        if index in self._fixed:
            model.body_pos[self._bodies[index]], model.body_quat[self._bodies[index]] = pose[:3], pose[3:]
            return
        k = int(np.searchsorted(self._free, index))
        data.qpos[self._q[k]], data.qvel[self._v[k]] = pose, body[7:]
        data.qfrc_applied[self._v[k]] = data.qacc_warmstart[self._v[k]] = 0.0

    def push(self, force: Array, torque: Array) -> None:
        """Set world forces (3, N) and body torques (3, N) for the next step."""
        if self._views:
            self._wrench[:3] = force
            self._wrench[3:] = torque
        else:
            applied = self._data.qfrc_applied
            applied[self._v[:, :3]], applied[self._v[:, 3:]] = force.T[self._free], torque.T[self._free]


class Joints:
    """The driven joints of one robot, in the robot file's order.

    Args:
        mujoco: The module.
        model: The compiled model.
        data: Its state.
        prefix: Prefix of the robot's names.
        drives: The driven joints of the robot file.
    """

    def __init__(self, mujoco: Any, model: Any, data: Any, prefix: str, drives: Sequence[DrivenJoint]) -> None:
        self._mujoco, self._model, self._data = mujoco, model, data
        self.names = tuple(drive.name for drive in drives)
        joints = [model.joint(prefix + name) for name in self.names]
        self._q = np.array([int(joint.qposadr[0]) for joint in joints], dtype=int)
        self._v = np.array([int(joint.dofadr[0]) for joint in joints], dtype=int)
        self._rest = np.array([drive.rest for drive in drives])
        driven = [k for k, drive in enumerate(drives) if drive.mode != "free"]
        self._driven = np.array(driven, dtype=int)
        self._motors = np.array([int(model.actuator(prefix + self.names[k]).id) for k in driven], dtype=int)
        self._file = model.actuator_gainprm[self._motors].copy(), model.actuator_biasprm[self._motors].copy()
        self._limited = model.actuator_ctrllimited[self._motors].copy()
        self._drives = [drives[k] for k in driven]
        self._mode: DriveMode = "file"

    def state(self) -> JointState:
        """Return positions, velocities and the drives' efforts."""
        data = self._data
        return JointState(data.qpos[self._q], data.qvel[self._v], data.qfrc_actuator[self._v])

    def place(self, position: Array, velocity: Array) -> None:
        """Set the joints' state."""
        self._data.qpos[self._q], self._data.qvel[self._v] = position, velocity
        self._data.qacc_warmstart[self._v] = 0.0

    def rest(self) -> None:
        """Move the joints to their rest positions."""
        if self.names:
            self.place(self._rest, np.zeros(len(self.names)))

    def drive(self, mode: DriveMode, target: Array) -> None:
        """Drive the joints towards a target (joints,); free joints ignore it."""
        if mode != self._mode:
            self._switch(mode)
        self._data.ctrl[self._motors] = np.asarray(target)[self._driven]

    def _switch(self, mode: DriveMode) -> None:
        """Switch the actuators' gains to another mode."""
        model, (gain, bias) = self._model, (array.copy() for array in self._file)
        if mode != "file":
            gain[:], bias[:] = 0.0, 0.0
            for k, drive in enumerate(self._drives):
                if mode == "position":
                    gain[k, 0], bias[k, 1:3] = drive.stiffness, (-drive.stiffness, -drive.damping)
                elif mode == "velocity":
                    gain[k, 0], bias[k, 2] = drive.damping, -drive.damping
                else:
                    gain[k, 0] = 1.0
        model.actuator_gainprm[self._motors], model.actuator_biasprm[self._motors] = gain, bias
        # the control range is that of the file's mode
        model.actuator_ctrllimited[self._motors] = self._limited if mode == "file" else False
        self._mode = mode


class Loose:
    """Movable parts of a world besides robots: movable obstacles and parts of an MJCF world.

    Args:
        model: The compiled model.
        data: Its state.
        robots: MuJoCo ids of the robots' root bodies.
    """

    def __init__(self, model: Any, data: Any, robots: NDArray[np.integer]) -> None:
        self._model, self._data = model, data
        place = np.searchsorted(model.jnt_qposadr, np.arange(model.nq), side="right") - 1
        self._q: NDArray[np.intp] = np.flatnonzero(~np.isin(model.body_rootid[model.jnt_bodyid[place]], robots))
        self._v: NDArray[np.intp] = np.flatnonzero(~np.isin(model.body_rootid[model.dof_bodyid], robots))

    @property
    def there(self) -> bool:
        """Whether there are any such parts."""
        return bool(len(self._v))

    def restore(self) -> None:
        """Return all parts to their initial state, at rest."""
        data = self._data
        data.qpos[self._q] = self._model.qpos0[self._q]
        data.qvel[self._v] = data.qacc_warmstart[self._v] = 0.0


def mass_properties(mujoco: Any, model: Any, root: int) -> MassProperties:
    """Return mass, centre and inertia of a body with its subtree, with the joints at zero."""
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0
    mujoco.mj_kinematics(model, data)
    members = [k for k in range(model.nbody) if k == root or _hangs_on(model, k, root)]
    turn, origin = data.xmat[root].reshape(3, 3), data.xpos[root]
    mass = float(model.body_mass[members].sum())
    centre = (model.body_mass[members][:, None] * data.xipos[members]).sum(axis=0) / max(mass, 1e-300)
    inertia = np.zeros((3, 3))
    for k in members:
        axes, away = data.ximat[k].reshape(3, 3), data.xipos[k] - centre
        inertia += axes @ np.diag(model.body_inertia[k]) @ axes.T
        inertia += model.body_mass[k] * (away @ away * np.eye(3) - np.outer(away, away))
    return MassProperties(mass, turn.T @ (centre - origin), turn.T @ inertia @ turn)


def _hangs_on(model: Any, body: int, root: int) -> bool:
    while body > root:
        body = int(model.body_parentid[body])
    return body == root


def _follow(places: NDArray[np.intp], width: int) -> bool:
    return bool(len(places)) and bool((np.diff(places[:, 0]) == width).all())
