"""N worlds of one MuJoCo model, each with a jointed robot, as arrays (N, ...).

MuJoCo steps them on threads (:mod:`.threads`) or MuJoCo Warp on a GPU (:mod:`.warp`). The state alone determines a
world's future: the solver is not warm-started from the previous period, so that a run resumes from saved states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlstack.arrays import Array, Index
from rlstack.robots.joints import DrivenJoint
from rlstack.robots.mjcf import import_mujoco

_ROUNDING_S = 1e-9

Item = int | tuple[int | slice, ...]
"""An index into an array."""


class MujocoSimulator(ABC):
    """N worlds of one MuJoCo model.

    Args:
        model: The compiled ``mujoco.MjModel`` of a world, with a joint and an actuator named like each drive.
        drives: The robot's driven joints, in the order of targets.
        count: N.
        period_s: Control period, rounded to a multiple of the model's timestep.
        varied: Whether each world has its own model; otherwise its methods that change the model raise ``ValueError``.
        device: A device name from :func:`rlstack.fused.check_device`.
        threads: Number of CPU threads; None: one per core.
    """

    def __init__(
        self,
        model: Any,
        drives: Sequence[DrivenJoint],
        count: int,
        *,
        period_s: float,
        varied: bool = False,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        mujoco = import_mujoco()
        self._mujoco, self.count, self._varied = mujoco, count, varied
        self.steps = max(1, round(period_s / model.opt.timestep))
        """Physics steps per control period."""
        self.model = model
        """The model as built; those of the worlds may differ."""
        self._scratch = mujoco.MjData(model)
        self._slides = _slides(mujoco, model, {drive.name for drive in drives})
        self._stands: dict[str, Array] = {}
        joints = [model.joint(drive.name) for drive in drives]
        self._q = 1 + np.array([int(joint.qposadr[0]) for joint in joints])
        self._v = 1 + model.nq + np.array([int(joint.dofadr[0]) for joint in joints])
        self._motors = np.array([int(model.actuator(drive.name).id) for drive in drives])
        width = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        mujoco.mj_resetData(model, self._scratch)
        start = np.empty(width)
        mujoco.mj_getState(model, self._scratch, start, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        rest = np.array([drive.rest for drive in drives])
        start[self._q] = rest
        self._start = start
        self.state = np.repeat(start[None], count, axis=0)
        """(N, width) the full MuJoCo state: time, positions, velocities."""
        self._after = np.empty((count, self.steps, width))
        self._allocate(device, threads)

    @property
    def joint_position(self) -> Array:
        """(N, joints) rad or m."""
        return self.state[:, self._q]

    @property
    def joint_velocity(self) -> Array:
        """(N, joints) rad/s or m/s."""
        return self.state[:, self._v]

    @property
    def time_s(self) -> Array:
        """(N,) time since each world's start, s."""
        return self.state[:, 0]

    @property
    def passed(self) -> Array:
        """(N, steps, width): states after each physics step of the last control period; time is the first column."""
        return self._after

    def state_at(self, world: int, time_s: float) -> Array:
        """Return the first state (width,) of a world in the last control period that is not before a time."""
        passed = self.passed[world]
        late = int(np.searchsorted(passed[:, 0], time_s - _ROUNDING_S))
        return np.asarray(passed[min(late, len(passed) - 1)])

    def pose(self, name: str) -> tuple[Array, Array]:
        """Return position (N, 3) m and orientation (N, 4) xyzw of a free body, or of a sliding body in a fixture.

        A sliding body has one joint of its own name, in a fixture that :meth:`move` positions.
        """
        if name in self._slides:
            return self._slid(name)
        pose = self.state[:, self._pose(name)]
        return pose[:, :3], pose[:, [4, 5, 6, 3]]

    def twist(self, name: str) -> tuple[Array, Array]:
        """Return a free body's linear velocity (N, 3) m/s, world, and angular velocity (N, 3) rad/s, body."""
        velocity = self.state[:, self._twist(name)]
        return velocity[:, :3], velocity[:, 3:]

    def slide(self, name: str) -> Array:
        """Return the position (N,) of a joint of the scene, such as a drawer's, m or rad."""
        return self.state[:, 1 + int(self.model.joint(name).qposadr[0])]

    def restart(self, index: Index, joints: Array) -> None:
        """Reset some worlds, at rest, with the driven joints at ``joints`` (n, joints)."""
        self.state[index] = self._start
        self.state[index[:, None], self._q] = joints

    def place(self, index: Index, name: str, position: Array, orientation: Array) -> None:
        """Place a free body at poses (n, 3) m, (n, 4) xyzw, at rest."""
        self.state[index, self._pose(name)] = np.concatenate([position, orientation[:, [3, 0, 1, 2]]], axis=1)
        self.state[index, self._twist(name)] = 0.0

    def vary(self, index: Index, name: str, half_m: Array, mass_kg: Array, friction: Array) -> None:
        """Set a box's half lengths (n, 3) m, mass (n,) kg and friction (n,) in some worlds."""
        body, geom = int(self.model.body(name).id), int(self.model.geom(name).id)
        self._vary("geom_size", index, geom, half_m)
        self._vary("geom_friction", index, (geom, 0), friction)
        self._vary("geom_rbound", index, geom, np.linalg.norm(half_m, axis=1))
        self._vary("geom_aabb", index, (geom, slice(3, 6)), half_m)
        self._vary("body_mass", index, body, mass_kg)
        self._vary("body_inertia", index, body, box_inertia(half_m, mass_kg))
        self._settle(index)

    def move(self, index: Index, name: str, position: Array, yaw: Array | None = None) -> None:
        """Move a fixed body to positions (n, 3) m in some worlds, rotated by ``yaw`` (n,) rad."""
        body = int(self.model.body(name).id)
        turned = np.zeros(len(index)) if yaw is None else yaw
        zero = np.zeros(len(index))
        self._vary("body_pos", index, body, position)
        self._vary("body_quat", index, body, np.stack([np.cos(turned / 2), zero, zero, np.sin(turned / 2)], axis=1))
        stands = self._stands.setdefault(name, np.zeros((self.count, 4)))
        stands[index, :3], stands[index, 3] = position, turned

    @property
    def stands(self) -> dict[str, Array]:
        """Position, m, and yaw, rad, of the fixed bodies that :meth:`move` has moved, (N, 4) by name."""
        return self._stands

    def brake(self, index: Index, name: str, force: Array) -> None:
        """Set the dry friction (n,) of a joint of the scene in some worlds, N or N m."""
        self._vary("dof_frictionloss", index, int(self.model.joint(name).dofadr[0]), force)

    def vary_friction(self, index: Index, body: str, friction: Array) -> None:
        """Set the friction (n,) of all of a body's geoms in some worlds."""
        for geom in np.flatnonzero(self.model.geom_bodyid == self.model.body(body).id).tolist():
            self._vary("geom_friction", index, (geom, 0), friction)

    def vary_gains(self, index: Index, stiffness: Array, damping: Array | None = None) -> None:
        """Set the drives' stiffness and damping to shares (n, joints) of the robot file's in some worlds.

        The damping's share is the stiffness's by default.
        """
        damping = stiffness if damping is None else damping
        for k, motor in enumerate(self._motors.tolist()):
            share = np.stack([stiffness[:, k], stiffness[:, k], damping[:, k]], axis=1)
            for field in ("actuator_gainprm", "actuator_biasprm"):
                self._vary(field, index, (motor, slice(3)), share * getattr(self.model, field)[motor, :3])

    def load(self, index: Index, name: str, payload_kg: Array, compensated: Array) -> None:
        """Add payloads (n,) kg to the mass of a body, at its centre, in some worlds; gravity compensation ignores them.

        It compensates a share (n,) of the weight of the bodies as built that it compensates there.
        """
        model, body = self.model, int(self.model.body(name).id)
        built = float(model.body_mass[body])
        self._vary("body_mass", index, body, built + payload_kg)
        for other in np.flatnonzero(model.body_gravcomp).tolist():
            known = built / (built + payload_kg) if other == body else 1.0
            self._vary("body_gravcomp", index, other, known * compensated * model.body_gravcomp[other])
        self._settle(index)

    @abstractmethod
    def step(self, target: Array) -> None:
        """Advance one control period with the joints driven to ``target``, rad or m.

        Args:
            target: (N, joints), or (N, steps, joints) for each physics step.
        """

    @abstractmethod
    def close(self) -> None:
        """Release threads and device memory."""

    @abstractmethod
    def _allocate(self, device: str, threads: int | None) -> None:
        """Allocate threads or device memory."""

    @abstractmethod
    def _assign(self, field: str, index: Index, item: Item, values: Array) -> None:
        """Set ``item`` of a field of ``mujoco.MjModel`` to ``values`` (n, ...) in some worlds."""

    @abstractmethod
    def _settle(self, index: Index) -> None:
        """Recompute MuJoCo's constants derived from masses, such as the inertia of simple joints, in some worlds."""

    def _vary(self, field: str, index: Index, item: Item, values: Array) -> None:
        if not self._varied:
            raise ValueError("the worlds share one model: make them with varied=True")
        self._assign(field, index, item, values)

    def _slid(self, name: str) -> tuple[Array, Array]:
        fixture, offset, axis = self._slides[name]
        stands = self._stands.get(fixture, np.zeros((self.count, 4)))
        local = offset + self.slide(name)[:, None] * axis
        cos, sin, zero = np.cos(stands[:, 3]), np.sin(stands[:, 3]), np.zeros(self.count)
        turned = [cos * local[:, 0] - sin * local[:, 1], sin * local[:, 0] + cos * local[:, 1], local[:, 2]]
        half = stands[:, 3] / 2
        orientation = np.stack([zero, zero, np.sin(half), np.cos(half)], axis=1)
        return stands[:, :3] + np.stack(turned, axis=1), orientation

    def _pose(self, name: str) -> slice:
        first = 1 + int(self.model.joint(name).qposadr[0])
        return slice(first, first + 7)

    def _twist(self, name: str) -> slice:
        first = 1 + self.model.nq + int(self.model.joint(name).dofadr[0])
        return slice(first, first + 6)


def _slides(mujoco: Any, model: Any, others: set[str]) -> dict[str, tuple[str, Array, Array]]:
    """Return the sliding bodies by name: the fixture, the position in it (3,) and the axis (3,)."""
    found = {}
    for k in range(model.njnt):
        joint = model.joint(k)
        if joint.name in others or model.jnt_type[k] != mujoco.mjtJoint.mjJNT_SLIDE:
            continue
        body = int(model.jnt_bodyid[k])
        fixture = model.body(int(model.body_parentid[body])).name
        found[joint.name] = (fixture, model.body_pos[body].copy(), model.jnt_axis[k].copy())
    return found


def box_inertia(half_m: Any, mass_kg: Any) -> Any:
    """Return the principal moments of inertia (..., 3) of boxes with half lengths (..., 3)."""
    square = np.square(half_m)
    return (square.sum(axis=-1, keepdims=True) - square) * (np.asarray(mass_kg)[..., None] / 3.0)
