"""Rotor dynamics of all quadrotors of a simulation: commands, delay, motor lag and the wrench on each body.

One compiled kernel (:mod:`rlstack.fused`, double precision) computes all robots at once, for any engine. It evaluates
the forces at the time of the positions, so that the engine's semi-implicit Euler step becomes a leapfrog: the engine's
velocities lie half a step before the positions (the first step after a reset is half a kick), and the error is of
second order in the step. Terms that an engine computes from its own velocities are corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.fused import Kernel, minimum, where, zeros
from rlstack.interfaces.kind_signals import command_of, command_range
from rlstack.interfaces.rates_messages import OFF
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, PARAMETERS, pack_parameters
from rlstack.sim.engine import BODY_ROWS, Gyroscopic
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.physics.battery import Batteries
from rlstack.sim.physics.body import Body, cross
from rlstack.sim.physics.loads import disturbances, loads
from rlstack.sim.physics.models import PhysicsModels
from rlstack.sim.physics.rate_loop import rotor_commands
from rlstack.sim.physics.rotor import decay, lagged

_MOST_TURN_RAD = 0.8
"""Greatest rotation in one physics step, rad; a faster body (7,600 rpm at 1 kHz) has no gyroscopic term."""

_JUMP_M_S2, _JUMP_RAD_S2 = 1e3, 1e5
"""Accelerations above this come from contacts, and are not extrapolated."""


class _Late(NamedTuple):
    """Delayed commands."""

    due: NDArray[np.int64]  # (robots,) the step at which each takes effect
    who: NDArray[np.intp]  # (robots,)
    speed: Array  # (rotors, robots) rad/s


class Rotorcraft:
    """The quadrotors of a simulation, which are its first N bodies.

    Args:
        robots: N quadrotors.
        body: (13, N) rows, see :data:`rlstack.sim.engine.BODY_ROWS`; the engine's states, kept up to date by the
            caller.
        step_s: Physics step, s.
        engine_term: How the engine treats the gyroscopic term of the body.
        gyroscopic: Whether the rotors' angular momentum acts on the body.
        models: Further physics models of each robot; None: none.
    """

    def __init__(
        self,
        robots: Sequence[Quadrotor],
        body: Array,
        step_s: float,
        engine_term: Gyroscopic,
        gyroscopic: bool = False,
        models: Sequence[PhysicsModels] | None = None,
    ) -> None:
        self.robots, self._step_s, count = tuple(robots), step_s, len(robots)
        self._body = body
        self._velocities: Array | None = None
        rotors = len(robots[0].rotors)
        self.force, self.torque = _rows(3, count), _rows(3, count)
        """(3, N) N in the world and N m in the body, for the next physics step; from :meth:`prepare`."""
        self.parameters = _rows(PARAMETER_WIDTH, count)
        """(PARAMETER_WIDTH, N), see :mod:`rlstack.sim.batch_quadrotor.layout`."""
        self.air = _rows(3, count)
        """(3, N) m/s, world: the air velocity at each robot, written by the caller."""
        # the engine's velocities one step ago, and before the coming step
        self._held = [_rows(6, count) for _ in range(2)]
        self._instant = _rows(6, count)  # velocities at the time of the positions
        self._fresh = _rows(1, count)  # 1 before the first step after a reset
        self._some_fresh = False
        self._elapsed = _rows(1, count)  # s since the reset, kept while there are gusts
        self._began = np.zeros(count, dtype=np.int64)  # step of the reset
        self._gusty = np.zeros(count, dtype=bool)
        self._some_gusty = False
        self._target = _rows(rotors, count)  # rad/s, or rates and thrust, in effect
        # rotor speeds now and half a step before; then the same after the next step
        self._sides = [_rows(2 * rotors, count) for _ in range(2)]
        self._rotors, self._models = rotors, tuple(models or [PhysicsModels()] * count)
        some = reduce(or_, self._models)  # computed for all, with zero parameters where disabled
        self.batteries = Batteries(robots, [m.battery for m in self._models]) if some.battery else None
        """The batteries; None if the model is disabled for all."""
        self._battery_steps = max(round(_BATTERY_S / step_s), 1)
        self._late: list[_Late] = []
        self._delay_steps = np.zeros(count, dtype=np.int64)
        self._some_late = False
        self._steps = 0
        low, high = zip(*(command_range(r, command_of(r).name) for r in robots))
        self._low, self._high = np.array(low).T, np.array(high).T  # (rotors, N)
        self._loops = np.array([r.rate_loop is not None for r in robots])
        kernel = _kernel(rotors, step_s, engine_term, gyroscopic, some, bool(self._loops.any()))
        # accelerations at the time of the coming step and of the last one: (6, N), m/s^2 world and rad/s^2 body
        self._gains = [_rows(6, count) for _ in range(2)]
        arrays = {
            "body": body,
            "fresh": self._fresh,
            "elapsed": self._elapsed,
            "target": self._target,
            "parameters": self.parameters,
            "air": self.air,
            "force": self.force,
            "torque": self.torque,
            "instant": self._instant,
        }
        self._launches: list[Callable[[], None]] = []
        for now, after in ((0, 1), (1, 0)):
            turning, following = self._sides[now], self._sides[after]
            gains = {"gain": self._gains[now], "last": self._gains[after]}
            engine = {"before": self._held[now], "held": self._held[after]}
            self._launches.append(kernel.prepare({**arrays, "turning": turning, "next": following, **gains, **engine}))
        self.perturb(slice(None), Perturbation.none(count, rotors))

    @property
    def speed(self) -> Array:
        """(rotors, N) rad/s, now."""
        return self._sides[0][: self._rotors]

    @property
    def poses(self) -> Array:
        """(7, N) present position m and orientation xyzw; read-only."""
        return self._body[:7]

    def velocities(self) -> Array:
        """Return (6, N) linear m/s, world, and angular rad/s, body, velocities at the time of the positions.

        The array is read-only and cached, since many robots may be read at the same time.
        """
        if self._velocities is None:
            self._launches[0]()
            self._velocities = self._instant.copy()
        return self._velocities

    def specific_force(self, index: int, rotation: Array) -> Array:
        """Return a robot's specific force (3,) m/s^2, body, in the last step; ``rotation`` (3, 3) is body to world."""
        if self._fresh[0, index] == 0.0:
            pushed = (self._body[7:10, index] - self._held[0][:3, index]) / self._step_s
        else:  # no step yet: use the coming accelerations
            self._launches[0]()
            pushed = self._gains[0][:3, index]
        return np.asarray((pushed + _GRAVITY) @ rotation)

    def prepare(self) -> None:
        """Compute :attr:`force` and :attr:`torque` for the next physics step from the bodies' present state."""
        if self._late:
            self._arrive()
        self._launches[0]()

    def finish_step(self) -> None:
        """Advance rotors, batteries and time after a physics step that followed :meth:`prepare`."""
        self._velocities = None
        self._held.reverse()
        if self._some_fresh:
            fresh, before = self._fresh[0] > 0.0, self._held[0]
            # as if it had moved with the same acceleration
            before[:, fresh] = 2.0 * before[:, fresh] - self._body[7:BODY_ROWS, fresh]
            self._fresh[:], self._some_fresh = 0.0, False
        self._sides.reverse()
        self._gains.reverse()
        self._launches.reverse()
        self._steps += 1
        if self._some_gusty:
            self._clock()
        if self.batteries is not None and self._steps % self._battery_steps == 0:
            self.batteries.advance(self._battery_steps * self._step_s, self.speed)
            self._limit()

    def reset(self, index: Any, rotor_speed: Array) -> None:
        """Reset robots after placing them; motors hold ``rotor_speed`` (rotors, robots) rad/s until a command acts.

        A rate loop holds rates of 0 and the weight until then, or its motors are off where they stand still.
        """
        self._velocities = None
        speed = np.asarray(rotor_speed, dtype=float)
        self._sides[0][:, index] = np.concatenate([speed, speed])
        self._target[:, index] = self._held_target(index, speed)
        self._fresh[0, index], self._elapsed[0, index] = 1.0, 0.0
        self._began[index] = self._steps
        self._some_fresh = True
        self._drop(index)
        if self.batteries is not None:
            self.batteries.reset(index)
            self._limit()

    def rest(self, index: NDArray[np.integer]) -> None:
        """Mark robots that were just reset as resting on a surface.

        Contact already carries their weight, so the half kick of a first step would throw them up. Robots with more
        thrust than weight are about to take off and stay unmarked.
        """
        self._launches[0]()
        coming, last = self._gains
        stay = index[coming[2, index] <= 0.0]
        self._fresh[0, stay] = 0.0
        self._held[0][:, stay], last[:, stay] = self._body[7:BODY_ROWS, stay], coming[:, stay]

    def command(self, index: Any, speed: Array) -> Array:
        """Command rotor speeds (rotors, robots) rad/s, or rates and thrust; return them clipped to their range."""
        self._velocities = None
        sent = np.minimum(np.maximum(speed, self._low[:, index]), self._high[:, index])  # a third of np.clip's time
        if self._some_late and self._delay_steps[index].any():
            self._late.append(_Late(self._steps + self._delay_steps[index], np.arange(len(self.robots))[index], sent))
        else:
            self._target[:, index] = sent
        return np.asarray(sent)

    def stop(self, index: Any) -> None:
        """Cut the motors now, without delay, and drop delayed commands."""
        self._velocities = None
        self._target[:, index] = self._off(index)
        self._drop(index)

    def _off(self, index: Any) -> Array:
        """Return the targets (rotors, robots) that stop the motors: 0 rad/s, or a thrust below 0."""
        off = np.zeros((self._rotors, len(self.robots)))
        off[3] = np.where(self._loops, OFF, 0.0)
        return off[:, index]

    def _held_target(self, index: Any, speed: Array) -> Array:
        """Return the targets (rotors, robots) after a reset with these rotor speeds."""
        if not self._loops.any():
            return speed
        hover = np.array([0.0, 0.0, 0.0, STANDARD_GRAVITY]).reshape(-1, *[1] * (speed.ndim - 1))
        looped = np.where((speed > 0.0).any(axis=0), hover, self._off(index))
        return np.asarray(np.where(self._loops[index], looped, speed))

    def perturb(self, index: Any, perturbation: Perturbation) -> None:
        """Set robots' perturbations; the caller sets mass and inertia in the engine."""
        self._velocities = None
        groups: dict[tuple[int, PhysicsModels], list[int]] = {}
        numbers = np.arange(len(self.robots))[index]
        for k, number in enumerate(numbers.tolist()):  # robots with equal values, all at once
            groups.setdefault((id(self.robots[number]), self._models[number]), []).append(k)
        for (_, models), alike in groups.items():
            robot, these = self.robots[numbers[alike[0]]], perturbation.take(np.array(alike))
            self.parameters[:, numbers[alike]] = pack_parameters(robot, these, "float64", models).T
        if self.batteries is not None:
            self._limit()
        self._delay_steps[index] = np.rint(perturbation.delay_s / self._step_s).astype(np.int64)
        self._some_late = bool(self._delay_steps.any())
        self._gusty[index] = (perturbation.gust_duration_s > 0.0) & (perturbation.gust_force_n != 0.0).any(axis=1)
        self._some_gusty = bool(self._gusty.any())
        self._clock()

    def _limit(self) -> None:
        assert self.batteries is not None
        # robots without a simulated battery need no limit here: their commands are clipped already
        self.parameters[_TOP_SPEED] = np.where(self.batteries.present, self.batteries.top_speed, np.inf)

    def _clock(self) -> None:
        self._elapsed[0] = (self._steps - self._began) * self._step_s

    def _arrive(self) -> None:
        for late in self._late:
            now = late.due == self._steps
            if now.any():
                self._target[:, late.who[now]] = late.speed[:, now]
        self._late = [late for late in self._late if (late.due > self._steps).any()]

    def _drop(self, index: Any) -> None:
        gone = np.zeros(len(self.robots), dtype=bool)
        gone[index] = True
        for late in self._late:
            late.due[gone[late.who]] = -1


_BATTERY_S = 0.01
"""Update period of batteries, s; they change over seconds."""
_TOP_SPEED = PARAMETERS["speed_range"].stop - 1
_GRAVITY = np.array([0.0, 0.0, STANDARD_GRAVITY])
_LIMITS = np.array([_JUMP_M_S2] * 3 + [_JUMP_RAD_S2] * 3)[:, None]


def _rows(rows: int, count: int) -> Array:
    array: Array = zeros(rows, count, dtype="float64")
    return array


@lru_cache(maxsize=16)
def _kernel(
    rotors: int,
    step_s: float,
    engine_term: Gyroscopic,
    gyroscopic: bool,
    models: PhysicsModels,
    rate_loops: bool = False,
) -> Kernel:
    """Return the kernel of force, torque and next rotor speeds of one robot."""

    def kernel(
        body: Any,
        before: Any,
        fresh: Any,
        elapsed: Any,
        target: Any,
        parameters: Any,
        air: Any,
        turning: Any,
        last: Any,
    ) -> dict[str, Any]:
        p = {name: parameters[where_] for name, where_ in PARAMETERS.items()}
        held = body[7:BODY_ROWS]
        starts = fresh[0] > 0.5
        now = np.stack([_instant(h, b, starts, step_s * limit[0]) for h, b, limit in zip(held, before, _LIMITS)])
        at = Body(body[0:3], body[3:7], now[:3], now[3:])
        speed, before_speed = turning[:rotors], turning[rotors:]
        lag = p["time_constants"]
        if rate_loops:
            # the accelerations of the step before: gyroscopic ones of the coming step follow from the command
            turning_up = where(starts, 0.0, last[3:6])
            looped = rotor_commands(at.rates, turning_up, speed, target, p)
            target = where(p["loop_lag"][0] > 0.0, looped, target)
        if models.battery:
            target = minimum(target, p["speed_range"][1])
        after_speed = lagged(speed, target, decay(lag, 0.5 * step_s))
        # over this kick's time span, in which the command may have changed; a half kick counts half, below
        change = (after_speed - before_speed) * (where(starts, 2.0, 1.0) / step_s) if gyroscopic else None
        force, torque = loads(at, speed, change, p, models, air)
        # a half kick spans half a step from the reset on; the others are centred on their time
        first = disturbances(p, elapsed[0], 0.5 * step_s)
        later = disturbances(p, elapsed[0] - 0.5 * step_s, step_s)
        force = force + np.stack([where(starts, a, b) for a, b in zip(first[0], later[0])])
        inertia = p["inertia"]
        # an explicit gyroscopic term diverges once the body turns by about a radian per step
        slow = (at.rates * at.rates).sum(axis=0) < (_MOST_TURN_RAD / step_s) ** 2
        twist = cross(at.rates, inertia * at.rates)
        torque = torque + first[1] - np.stack([where(slow, t, 0.0) for t in twist])
        gain = np.concatenate([force / p["mass"][0] - np.array(_GRAVITY), torque / inertia])
        # the change of the forces since the last step is known by now
        more = [step_s * (coming - past) for coming, past in zip(gain, last)]
        rows = zip(held, before, _LIMITS, more)
        instant = np.stack([_instant(h, b, starts, step_s * limit[0], m) for h, b, limit, m in rows])
        half = where(starts, 0.5, 1.0)
        weight = p["mass"][0] * STANDARD_GRAVITY
        force = np.stack([half * force[0], half * force[1], half * (force[2] - weight) + weight])
        torque = half * torque
        if engine_term == "explicit":
            torque = torque + cross(held[3:], inertia * held[3:])
        end = lagged(after_speed, target, decay(lag, 0.5 * step_s))
        turned = np.concatenate([end, after_speed])
        return {"force": force, "torque": torque, "next": turned, "gain": gain, "instant": instant, "held": held}

    inputs = {
        "body": BODY_ROWS,
        "before": 6,
        "fresh": 1,
        "elapsed": 1,
        "target": rotors,
        "parameters": PARAMETER_WIDTH,
        "air": 3,
        "turning": 2 * rotors,
        "last": 6,
    }
    return Kernel(kernel, inputs, dtype="float64")


def _instant(held: Any, before: Any, starts: Any, limit: float, more: Any = 0.0) -> Any:
    """Return a velocity at the time of the positions: half a change ahead of the engine's.

    Args:
        held: The engine's velocity.
        before: The engine's velocity one step ago, before forces and contacts changed it.
        starts: Whether there was no step yet.
        limit: Greatest change to extrapolate.
        more: Increase of the next change over the last.
    """
    change = held - before
    smooth = (change < limit) & (change > -limit) & ~starts
    return where(smooth, held + 0.5 * (change + more), held)
