"""Identification of arms from joint targets and joint states: MuJoCo, with the drives of the robot file.

Each drive's effort is ``stiffness * (target - position) - damping * velocity``, less dry friction, within the file's
effort; its motor adds an armature to the joint's inertia. The links' masses and inertias are the file's: they are the
scale by which motion tells all others. Segments start from positions of their own: a joint held by dry friction stays
where it began, and half a milliradian there makes drives 20% stronger or weaker. Damped joints forget with which
velocity they began, so that is the measured one.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.identification.motion_model import (
    Channel,
    Edit,
    Estimate,
    KindIdentification,
    MotionModel,
    Parameter,
    Windows,
)
from rlstack.identification.recorded import Recorded
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.joints import rest_positions
from rlstack.robots.mjcf import import_mujoco, mujoco_spec
from rlstack.schema import to_data

_STEP_S = 0.001
"""Integration step: that of the simulators. A damping D that is integrated implicitly in steps h acts like an inertia
of h D / 2 besides, which at 2 ms is about half of the armature of a Panda's wrist."""

_POSITION_STEP = 1e-4
"""Step of finite differences of an initial position, rad or m."""

_POSITION_NOISE, _VELOCITY_NOISE = 0.0005, 0.005
"""First guess of the noise, rad and rad/s: an encoder of 4096 steps."""

_FLOOR = 0.02
"""Least standard deviation of the logarithm of gains: integrators of such steps differ by that."""

_SILENT_S = 0.25
"""Time between two commands above which nobody commands."""

_AT_LEAST = 0.05
"""Least half width of the training range of the gains: they differ by that with temperature and voltage."""

_MOVES = "joint targets that step by 0.3 rad and more every second, each joint in its turn and all together"
_SLOW = "slow motions with reversals of every joint"
_DRIVE = ("stiffness", "damping", "armature")


class ArmMotion(MotionModel):
    """See :class:`rlstack.identification.motion_model.MotionModel`.

    A state is the positions and velocities of all joints, the gripper's among them; the arm's positions are estimated.
    """

    reference = "joint_position"

    def __init__(self, robot: Manipulator, recordings: Sequence[Recorded]) -> None:
        self._mujoco = import_mujoco()
        from mujoco import rollout

        spec = mujoco_spec(robot, timestep_s=_STEP_S, floor=False)
        self._model = spec.compile()
        self._model.opt.disableflags |= int(self._mujoco.mjtDisableBit.mjDSBL_CONTACT)
        self._data = self._mujoco.MjData(self._model)
        self._pool = rollout.Rollout(nthread=0)
        drives = robot.drives
        joints = [self._model.joint(drive.name) for drive in drives]
        self._q = np.array([int(joint.qposadr[0]) for joint in joints])
        self._v = np.array([int(joint.dofadr[0]) for joint in joints])
        self._motors = np.array([int(self._model.actuator(drive.name).id) for drive in drives])
        self._arm = np.flatnonzero(~np.array(robot.gripping))
        self._tool = int(self._model.body(robot.tool_link).id)
        self._states = [recorded.tracks["joint_states"] for recorded in recordings]
        self._targets = [recorded.tracks["cmd/joints"] for recorded in recordings]
        lower, upper = (np.array([getattr(drive, end) for drive in drives]) for end in ("lower", "upper"))
        self._sums = [
            _integral(track.time_s, np.clip(track.values["joint_target"], lower, upper)) for track in self._targets
        ]
        self.parameters = tuple(_parameters(robot, self._inertia(robot), float(self._model.body_mass[self._tool])))
        self._column = {parameter.name: k for k, parameter in enumerate(self.parameters)}
        self._names = [drives[k].name for k in self._arm]
        width = len(self._arm)
        self.state_steps = np.full(width, _POSITION_STEP)
        self.channels = (
            Channel("joint_position", "rad", width, _POSITION_NOISE),
            Channel("joint_velocity", "rad/s", width, _VELOCITY_NOISE),
        )

    def states(self, windows: Windows) -> Array:
        """Return the measured states (S, 2 joints)."""
        return np.concatenate([self._measured(windows, name)[:, 0] for name in _MEASURED], axis=1)

    def moved(self, states: Array, change: Array) -> Array:
        """Return the states after changes of the arm's positions."""
        found = np.array(np.broadcast_to(states, (*change.shape[:-1], states.shape[-1])))
        found[..., self._arm] += change
        return found

    def residual(self, values: Array, states: Array, windows: Windows) -> Array:
        """Return the arm's positions and velocities, predicted minus measured (V, S, K, 2 arm joints)."""
        at_s = self._times(windows)
        since = at_s - at_s[:, :1]
        steps = int(np.ceil(since.max() / _STEP_S)) + 1
        measured = np.concatenate([self._measured(windows, name)[..., self._arm] for name in _MEASURED], axis=-1)
        # between two steps in proportion
        place = since / _STEP_S
        before = np.minimum(place.astype(int), steps - 1)
        share = (place - before)[..., None]
        rows = np.arange(len(windows))[:, None]
        columns = np.concatenate([1 + self._q[self._arm], 1 + self._model.nq + self._v[self._arm]])
        found = np.empty((len(values), *measured.shape))
        width = self._mujoco.mj_stateSize(self._model, self._mujoco.mjtState.mjSTATE_FULLPHYSICS)
        joints = states.shape[-1] // 2
        for v, value in enumerate(values):
            start = np.zeros((len(windows), width))
            start[:, 1 + self._q], start[:, 1 + self._model.nq + self._v] = states[v, :, :joints], states[v, :, joints:]
            control = np.zeros((len(windows), steps, self._model.nu))
            control[..., self._motors] = self._commanded(at_s[:, 0], steps, value[self._column["delay"]], windows)
            after, _ = self._pool.rollout(self._varied(value), self._data, start, control)
            path = np.concatenate([start[:, None, columns], after[..., columns]], axis=1)
            found[v] = path[rows, before] * (1.0 - share) + path[rows, before + 1] * share - measured
        return found

    def recorded(self, windows: Windows) -> dict[str, Array]:
        """Return the arm's positions and velocities."""
        return {name: self._measured(windows, name)[..., self._arm] for name in _MEASURED}

    def usable(self, windows: Windows) -> NDArray[np.bool_]:
        """Return which windows are commanded all the time."""
        time_s, sent_s = ([track.time_s for track in tracks] for tracks in (self._states, self._targets))
        return windows.commanded(time_s, sent_s, _SILENT_S)

    def _measured(self, windows: Windows, name: str) -> Array:
        return windows.cut([track.values[name] for track in self._states])

    def _times(self, windows: Windows) -> Array:
        return windows.cut([track.time_s for track in self._states])

    def _commanded(self, begin_s: Array, steps: int, delay_s: float, windows: Windows) -> Array:
        """Return the mean targets (S, steps, joints) over each step, so that a delay changes them continuously."""
        found = []
        for recording, begin in zip(windows.recording, begin_s):
            edges = begin - delay_s + _STEP_S * np.arange(steps + 1)
            sent_s, total = self._targets[recording].time_s, self._sums[recording]
            at = [_extended(edges, sent_s, total[:, k]) for k in range(total.shape[1])]
            found.append(np.diff(np.stack(at, axis=1), axis=0) / _STEP_S)
        return np.array(found)

    def _varied(self, value: Array) -> Any:
        """Return the model with parameters (P,)."""
        model = copy.copy(self._model)
        for k, name in zip(self._arm, self._names):
            stiffness, damping, armature, friction = (
                float(value[self._column[f"{what}_{name}"]]) for what in (*_DRIVE, "friction")
            )
            model.actuator_gainprm[self._motors[k], 0] = stiffness
            model.actuator_biasprm[self._motors[k], 1:3] = -stiffness, -damping
            model.dof_armature[self._v[k]], model.dof_frictionloss[self._v[k]] = armature, friction
        carry(self._mujoco, model, self._data, self._tool, float(value[self._column["payload"]]))
        return model

    def _inertia(self, robot: Manipulator) -> Array:
        """Return the inertia (arm joints,) about each joint at rest, kg m^2."""
        self._data.qpos[self._q] = rest_positions(robot.drives)
        self._mujoco.mj_forward(self._model, self._data)
        full = np.zeros((self._model.nv, self._model.nv))
        self._mujoco.mj_fullM(self._model, self._data, full)
        return np.asarray(np.diag(full)[self._v[self._arm]])


_MEASURED = ("joint_position", "joint_velocity")


def carry(mujoco: Any, model: Any, data: Any, body: int, payload_kg: float) -> None:
    """Add a point mass, kg, at a body's frame, whose weight no controller compensates."""
    built, centre = float(model.body_mass[body]), model.body_ipos[body].copy()
    mass = built + payload_kg
    if mass <= 0.0:  # a frame without mass that carries nothing
        return
    moved = centre * built / mass
    apart = built * payload_kg / mass * float(centre @ centre)
    model.body_mass[body], model.body_ipos[body] = mass, moved
    model.body_inertia[body] += apart  # of the two about their common centre, at most
    model.body_gravcomp[body] *= built / mass
    mujoco.mj_setConst(model, data)


def _integral(time_s: Array, target: Array) -> Array:
    """Return the integral (n, joints) of held targets up to each command's time."""
    return np.concatenate([np.zeros((1, target.shape[1])), np.cumsum(np.diff(time_s)[:, None] * target[:-1], axis=0)])


def _extended(at_s: Array, time_s: Array, total: Array) -> Array:
    """Return an integral over held targets at times; before the first command it held its target, too."""
    slope = np.diff(total) / np.diff(time_s)
    found = np.interp(at_s, time_s, total)
    found += np.minimum(at_s - time_s[0], 0.0) * slope[0] + np.maximum(at_s - time_s[-1], 0.0) * slope[-1]
    return np.asarray(found)


def _parameters(robot: Manipulator, inertia: Array, tool: float) -> list[Parameter]:
    """Return the parameters; ``tool`` is the mass of the body that carries a payload, kg, which may be lighter, too."""
    found = []
    arm = [k for k, grips in enumerate(robot.gripping) if not grips]
    factor: dict[str, Any] = {"logarithmic": True, "prior": 1.0, "needed": 0.1, "floor": _FLOOR, "manoeuvre": _MOVES}
    for k, moment in zip(arm, inertia):
        joint = robot.drives[k]
        slides = joint.type == "prismatic"
        per, mass, effort = ("N/m", "kg", "N") if slides else ("N m/rad", "kg m^2", "N m")
        fields = [field.name for field in dataclasses.fields(robot.joints[k])]
        keys = {what: next(name for name in fields if name.startswith(f"{what}_")) for what in _DRIVE}
        for what, unit in zip(_DRIVE[:2], (per, per.replace("/", " s/"))):
            # a drive without damping can be told to have some, whose logarithm needs a start
            value = max(float(getattr(joint, what)), 1e-3 * joint.stiffness)
            # where the motor is most of what a joint moves, all are in proportion to its armature
            of: dict[str, Any] = {"needs": f"stiffness_{joint.name}"}
            if what == "stiffness":
                of = {"alike": f"armature_{joint.name}" if joint.armature else ""}
            found.append(Parameter(f"{what}_{joint.name}", unit, value, ("joints", k, keys[what]), **of, **factor))
        share: dict[str, Any] = {"logarithmic": False, "least": 0.0}
        own = max(0.1 * joint.armature, 0.02 * float(moment))
        found.append(
            Parameter(
                f"armature_{joint.name}",
                mass,
                joint.armature,
                ("joints", k, keys["armature"]),
                prior=float(moment),
                needed=own,
                manoeuvre=_MOVES,
                needs=f"stiffness_{joint.name}",
                floor=0.1 * own,
                **share,
            )
        )
        rough = 0.002 * joint.stiffness
        found.append(
            Parameter(
                f"friction_{joint.name}",
                effort,
                0.0,
                (),
                prior=0.1 * joint.effort_max,
                needed=rough,
                manoeuvre=_SLOW,
                needs=f"stiffness_{joint.name}",
                floor=0.1 * rough,
                **share,
            )
        )
    carried, lighter = 0.02 * robot.mass_kg, 0.0 - 0.5 * tool  # not -0.0, of a tool that is a frame alone
    late = 0.25 / robot.control_rate_hz
    found.append(
        Parameter("payload", "kg", 0.0, (), False, 5.0 * carried, carried, _MOVES, least=lighter, floor=0.01 * carried)
    )
    found.append(Parameter("delay", "s", 0.0, (), False, 0.1, late, _MOVES, least=0.0, floor=0.25 * _STEP_S))
    return found


class ArmIdentification(KindIdentification):
    """See :class:`rlstack.identification.motion_model.KindIdentification`."""

    signals = (*_MEASURED, "joint_target")
    segments_s = (0.25, 1.0)

    def check(self, robot: Any) -> None:
        """Refuse robots of several arms."""
        if robot.arms:
            raise UserError(
                f"{robot.name} is made of the files of several arms: identify each of them, from a bag of its own."
            )

    def names(self, robot: Any) -> dict[str, Sequence[str]]:
        """Return the joints' names."""
        return {signal: [joint.name for joint in robot.drives] for signal in self.signals}

    def model(self, robot: Any, recordings: Sequence[Recorded]) -> MotionModel:
        """Return the model."""
        return ArmMotion(robot, recordings)

    def edits(self, robot: Any, estimates: Mapping[str, Estimate], says: Callable[[str], str]) -> list[Edit]:
        """Return the changes: whole joints, as a file may leave their armature out."""
        found = []
        for k, joint in enumerate(robot.joints):
            changed = {}
            for name in (f"{what}_{joint.name}" for what in _DRIVE):
                if estimates[name].verdict != "kept":
                    changed[str(estimates[name].parameter.place[-1])] = (estimates[name].value, says(name))
            if changed:
                usual = {field.name: field.default for field in dataclasses.fields(joint)}
                data = {key: value for key, value in to_data(joint).items() if value != usual[key]}
                data |= {key: float(f"{value:.5g}") for key, (value, _) in changed.items()}
                found.append(Edit(("joints", k), data, "; ".join(note for _, note in changed.values())))
        return found

    def randomisation(self, robot: Any, estimates: Mapping[str, Estimate]) -> dict[str, tuple[float, float]]:
        """Return the ranges of gains and delay, where they are told."""
        found = {}
        stiff = [one for name, one in estimates.items() if name.startswith("stiffness_")]
        if all(one.verdict == "told" for one in stiff):
            wide = max(_AT_LEAST, max(one.reach for one in stiff))
            found["gains"] = (1.0 - wide, 1.0 + wide)
        if (delay := estimates["delay"]).verdict == "told":
            wide = max(0.25 / robot.control_rate_hz, delay.reach)
            found["command_delay_s"] = (max(delay.value - wide, 0.0), delay.value + wide)
        return found


IDENTIFICATION = ArmIdentification()
