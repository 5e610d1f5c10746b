"""A simulation of N robots in one world, independent of the physics engine.

Time, commands, motors, disturbances and sensors are here and in :mod:`rlstack.sim.rotorcraft`; an engine
(:mod:`rlstack.sim.engine`) only integrates. There are two uses: robots that share a world, each behind the
:class:`rlstack.interfaces.backend.Backend` protocol (:mod:`rlstack.sim.simulated_robot`), and many isolated robots at
once as arrays, for evaluation and vector environments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.arrays import Array
from rlstack.errors import Diverged
from rlstack.robots import RobotSpec, frames
from rlstack.robots.joints import rest_positions
from rlstack.robots.spec import STANDARD_GRAVITY
from rlstack.sim.engine import BODY_ROWS, Engine, Scene
from rlstack.sim.input_checks import (
    check_options,
    checked_index,
    checked_indices,
    checked_jointed_state,
    checked_rate,
    checked_robots,
    checked_seed,
    checked_states,
    checked_world,
)
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.physics.air import Air
from rlstack.sim.physics.models import models_of
from rlstack.sim.pushes import Pushes
from rlstack.sim.rotorcraft import Rotorcraft
from rlstack.sim.spawn import SpawnHeights, checked_starts, start_places
from rlstack.sim.world import World

if TYPE_CHECKING:
    from rlstack.kinds.quadrotor.spec import Quadrotor

_MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")


class Simulation:
    """N robots in one world. Built by :meth:`open`; every array has the robots' order.

    Args:
        engine: The physics engine.
        robots: N robots.
        world: The world, or a name for :func:`rlstack.sim.world.load_world`, such as ``"warehouse:7"``; None: a floor
            at z = 0.
        physics_rate_hz: Physics steps per second of simulated time; None: the engine's default. Commands act from the
            next step on: up to a step late, if this is not a multiple of a robot's control rate.
        isolated: Whether the robots cannot touch or see each other, for many runs at once.
        gyroscopic: Whether the rotors' angular momentum acts on the body.
        seed: Seed of the wind's turbulence.
        starts_m: (N, 3) initial positions, m, without the rest height; None: the world's start positions, or a grid
            (isolated robots: all at the origin).
        options: Engine-specific options.

    Raises:
        UserError: The engine is not installed, or an argument is not allowed.
    """

    def __init__(
        self,
        engine: type[Engine],
        robots: Sequence[RobotSpec],
        *,
        world: World | str | Path | None = None,
        physics_rate_hz: float | None = None,
        isolated: bool = False,
        gyroscopic: bool = False,
        seed: int = 0,
        starts_m: ArrayLike | None = None,
        **options: Any,
    ) -> None:
        engine.require()
        self.robots = robots = checked_robots(robots)
        self.rate_hz = checked_rate(physics_rate_hz, engine.steps_per_s, robots)
        check_options(options, engine, Simulation)
        seed = checked_seed("seed", seed)
        self.engine_type = engine
        self._fly = np.array([k for k, robot in enumerate(robots) if robot.has_rotors], dtype=int)
        self.flying = flying = tuple(cast("Quadrotor", robots[k]) for k in self._fly)
        """The robots with rotors."""
        self._mixed = len(flying) != len(robots)
        self._jointed = [k for k, robot in enumerate(robots) if robot.drives]
        self.world = world = checked_world(world, isolated)
        self.step_s = 1.0 / self.rate_hz
        self._scene = Scene(robots, self.step_s, world, isolated, options)
        self._gyroscopic = gyroscopic
        named = f"the world '{world.name}'" if world else "physics"
        blows = world is not None and world.wind is not None
        switches, self._floor = (world.physics, world.floor) if world else (None, True)
        self.models = tuple(models_of(robot, switches, blows, named, floor=self._floor) for robot in flying)
        """Enabled physics models of each quadrotor, by its robot file and the world."""
        self._air = Air(flying, self.models, world.wind if world else None, isolated, seed)
        count = len(robots)
        self.starts_m = start_places(count, world, isolated) if starts_m is None else checked_starts(starts_m, count)
        """(N, 3) m."""
        self._rotorcraft: Rotorcraft | None = None
        self._engine: Engine | None = None
        self._closed = False
        self.before_step: list[Callable[[float, float], None]] = []
        """Called before each physics step with its start time and length, s; only if some robots have no rotors."""
        self._steps = 0  # time is counted in whole steps, so that it never drifts
        self._owed_s = 0.0  # remainder of the requested durations, less than one step

    def __len__(self) -> int:
        return len(self.robots)

    @property
    def engine(self) -> Engine:
        """The engine, available after :meth:`open`."""
        if self._closed:
            raise RuntimeError(f"The {self.engine_type.name} simulation was closed: make a new one.")
        if self._engine is None:
            raise RuntimeError(f"The {self.engine_type.name} simulation is not open: call connect() or open() first.")
        return self._engine

    @property
    def rotorcraft(self) -> Rotorcraft:
        """The quadrotors, available after :meth:`open`."""
        if self._rotorcraft is None:
            _ = self.engine
            raise ValueError("There is no quadrotor in this simulation, and this is for quadrotors.")
        return self._rotorcraft

    @property
    def time_s(self) -> float:
        """Simulated time since :meth:`open`, s; a reset does not change it."""
        return self._steps * self.step_s

    def open(self) -> None:
        """Build the world and place the robots on the ground; a second call does nothing."""
        if self._closed:
            raise RuntimeError(f"The {self.engine_type.name} simulation was closed: make a new one.")
        if self._engine is not None:
            return
        self._engine = engine = self.engine_type(self._scene)
        self._body = np.zeros((BODY_ROWS, len(self)))
        self._held = self._body[7:]
        self._before = np.zeros_like(self._held)
        self._wrench = np.zeros((6, len(self)))
        self._pushes, self._pushed = Pushes(len(self)), False
        self._flight = np.zeros((BODY_ROWS, len(self.flying))) if self._mixed else self._body
        if self.flying:
            self._rotorcraft = Rotorcraft(
                self.flying, self._flight, self.step_s, engine.gyroscopic, self._gyroscopic, self.models
            )
        self._spawn = SpawnHeights(engine, self.robots, self.starts_m, self._floor, self.step_s)
        engine.reset_world()
        for index in range(len(self)):
            self.reset(index)

    def close(self) -> None:
        """Release everything; a second call does nothing, any other use is an error."""
        if self._engine is not None:
            self._engine.close()
        self._engine, self._closed = None, True

    def step(self, duration_s: float) -> None:
        """Advance all robots by ``duration_s`` in whole physics steps; the remainder carries over to the next call.

        Raises:
            ValueError: The duration is negative or not finite.
            Diverged: The state of a robot or of its joints became non-finite.
        """
        engine = self.engine
        if not (math.isfinite(duration_s) and duration_s >= 0.0):
            raise ValueError(f"duration_s: {duration_s} is not allowed: must be at least 0.")
        self._owed_s += duration_s
        count = math.floor(self._owed_s / self.step_s + 1e-6)
        self._owed_s -= count * self.step_s
        if self._mixed:
            for step in range(count):
                for prepare in self.before_step:
                    prepare((self._steps + step) * self.step_s, self.step_s)
                self._advance_mixed(engine)
        else:
            self._advance(engine, count)
        self._steps += count
        if lost := self._diverged(engine):
            raise Diverged(
                f"The simulation of robot {lost} diverged before {self.time_s:.3f} s: the state was too fast for a"
                f" physics_rate_hz of {self.rate_hz:g}."
            )

    def reset(self, index: int, state: Mapping[str, ArrayLike] | None = None) -> None:
        """Reset one robot to rest on the ground at its start position, or to ``state``; time continues.

        Args:
            index: Index of the robot.
            state: As in :meth:`rlstack.interfaces.backend.Backend.reset`; a robot with joints has ``joint_position``
                and ``joint_velocity`` (joints,) instead of rotor speeds; missing values are those at rest. A robot that
                is still and level at its rest height is placed where contact carries it, some micrometres lower.

        Raises:
            ValueError: There is no such robot, a name is unknown, or an array has the wrong shape, is not finite, or is
                not a rotation.
        """
        engine, index = self.engine, checked_index(index, len(self))
        robot = self.robots[index]
        ground = self._spawn.place(index)
        if robot.has_rotors:
            given = {name: np.asarray(array)[None] for name, array in (state or {}).items()}
            rotors = len(self.flying[self.slot(index)].rotors)
            checked = {name: array[0] for name, array in checked_states(given, 1, rotors).items()}
            if state is None:
                checked["position"] = ground
            stands = [self.slot(index)] if self._place(engine, index, checked) else []
        else:
            stands = []
            self._place_jointed(engine, index, checked_jointed_state(state or {}, len(robot.drives)), ground)
        self._refresh(engine, stands)

    def reset_world(self) -> None:
        """Return movable obstacles to their initial poses; robots stay where they are."""
        self.engine.reset_world()

    def set_state(self, state: Mapping[str, ArrayLike], index: NDArray[np.integer] | None = None) -> None:
        """Set robots' states from arrays (N, width) by name; velocities in the **world**; missing values are zero.

        Args:
            state: As in :meth:`rlstack.interfaces.backend.Backend.reset`, with a leading axis.
            index: Which robots; None: all.

        Raises:
            ValueError: As in :meth:`reset`.
        """
        engine, _ = self.engine, self.rotorcraft
        which = self._which(index)
        checked = checked_states(state, len(which), len(self.flying[0].rotors))
        stands: list[int] = []
        for k, number in enumerate(which.tolist()):
            if self._place(engine, number, {name: array[k] for name, array in checked.items()}):
                stands.append(self.slot(number))
        self._refresh(engine, stands)

    def state(self) -> dict[str, Array]:
        """Return the quadrotors' states by name, (N, width): velocities in the world, angular ones in the body."""
        velocities = self.rotorcraft.velocities()
        return {
            "position": self._flight[0:3].T.copy(),
            "orientation": self._flight[3:7].T.copy(),
            "linear_velocity": velocities[:3].T.copy(),
            "angular_velocity": velocities[3:].T.copy(),
            "rotor_speed": self.rotorcraft.speed.T.copy(),
        }

    def motion(self, index: int) -> dict[str, Array]:
        """Return one robot's position m, orientation xyzw, linear (world) and angular (body) velocity."""
        _ = self.engine
        flies = self.robots[index].has_rotors
        velocity = self.rotorcraft.velocities()[:, self.slot(index)] if flies else self._held[:, index].copy()
        return {
            "position": self._body[0:3, index].copy(),
            "orientation": self._body[3:7, index].copy(),
            "linear_velocity": velocity[:3],
            "angular_velocity": velocity[3:],
        }

    def slot(self, index: int) -> int:
        """Return the index of robot ``index`` among the quadrotors."""
        return int(np.searchsorted(self._fly, index)) if self._mixed else index

    def command(self, rotor_speed: ArrayLike) -> Array:
        """Command the quadrotors' ``rotor_speed`` (N, rotors) rad/s; return it clipped to the rotors' range.

        Those with a rate loop take rates and thrust (4,) instead.

        Raises:
            ValueError: The shape is wrong, a value is not finite, or there are no quadrotors; nothing was commanded.
        """
        craft = self.rotorcraft
        wanted = np.asarray(rotor_speed, dtype=float)
        shape = len(self.flying), len(self.flying[0].rotors)
        if wanted.shape != shape or not np.isfinite(wanted).all():
            raise ValueError(f"The command must be finite and of the shape {shape}.")
        return craft.command(slice(None), wanted.T).T

    def set_perturbation(self, perturbation: Perturbation, index: NDArray[np.integer] | None = None) -> None:
        """Apply perturbations until the next call; gust times count from each robot's reset.

        Args:
            perturbation: Perturbations of these robots.
            index: Which robots; None: all.

        Raises:
            ValueError: The number of robots or rotors differs, or there is no such quadrotor.
        """
        engine, craft = self.engine, self.rotorcraft
        which = self._which(index)
        shape, rotors = np.shape(perturbation.thrust_scale), len(self.flying[0].rotors)
        if shape != (len(which), rotors):
            raise ValueError(f"the perturbation's thrust_scale has the shape {shape}: must be {(len(which), rotors)}.")
        slots = np.array([self.slot(number) for number in which.tolist()], dtype=int)
        craft.perturb(slots, perturbation)
        for k, number in enumerate(which.tolist()):
            body = self.flying[slots[k]].body
            inertia = np.array(body.inertia_kg_m2) * perturbation.inertia_scale[k]
            engine.set_mass(number, body.mass_kg * float(perturbation.mass_scale[k]), inertia)

    def push(self, index: int, force: ArrayLike, torque: ArrayLike, duration_s: float) -> None:
        """Push a robot's base, from the next step on and instead of the push before.

        Args:
            index: The robot; one on a fixed base stays where it is.
            force: (3,) N, world.
            torque: (3,) N m, body.
            duration_s: For how long, s of simulated time.

        Raises:
            ValueError: A number is not finite, or there is no such robot.
        """
        _ = self.engine
        wrench = np.array([force, torque], dtype=float)
        if wrench.shape != (2, 3) or not np.isfinite(wrench).all():
            raise ValueError("The force and the torque must be three finite numbers each.")
        self._pushes.set(checked_index(index, len(self)), wrench[0], wrench[1], round(duration_s / self.step_s))

    def specific_force(self, index: int) -> Array:
        """Return the specific force (3,) m/s^2 at robot ``index``'s centre of mass, in the body frame."""
        turn = frames.to_matrix(self._body[3:7, index])
        if self.robots[index].has_rotors:
            return self.rotorcraft.specific_force(self.slot(index), turn)
        pushed = (self._held[:3, index] - self._before[:3, index]) / self.step_s
        return np.asarray((pushed + np.array([0.0, 0.0, STANDARD_GRAVITY])) @ turn)

    def _advance(self, engine: Engine, count: int) -> None:
        """Take physics steps if all robots have rotors."""
        craft, body, air = self.rotorcraft, self._body, self._air
        force, torque, moves = craft.force, craft.torque, air.moves
        for _ in range(count):
            if moves:
                craft.air[:] = air.velocity(self.step_s, body, craft.speed)
            craft.prepare()
            if self._pushes:
                pushed = self._pushes.take()
                engine.push(force + pushed[:3], torque + pushed[3:])
            else:
                engine.push(force, torque)
            engine.step()
            engine.refresh(body)
            craft.finish_step()

    def _advance_mixed(self, engine: Engine) -> None:
        """Take one physics step if some robots have no rotors."""
        craft, wrench = self._rotorcraft, self._wrench
        if craft is not None:
            if self._air.moves:
                craft.air[:] = self._air.velocity(self.step_s, self._flight, craft.speed)
            craft.prepare()
            wrench[:3, self._fly], wrench[3:, self._fly] = craft.force, craft.torque
        pushed = bool(self._pushes)
        if pushed:
            wrench = wrench + self._pushes.take()
        if craft is not None or pushed or self._pushed:  # once more afterwards, without it
            engine.push(wrench[:3], wrench[3:])
        self._pushed = pushed
        self._before[:] = self._held
        engine.step()
        self._refresh(engine)
        if craft is not None:
            craft.finish_step()

    def _diverged(self, engine: Engine) -> list[int]:
        """Return the diverged robots: those with a non-finite state of body or joints."""
        sound: NDArray[np.bool_] = np.all(np.isfinite(self._body), axis=0)
        for index in self._jointed:
            sound[index] &= bool(np.isfinite(engine.joints(index).position).all())
        lost: list[int] = np.flatnonzero(~sound).tolist()
        return lost

    def _refresh(self, engine: Engine, standing: Sequence[int] = ()) -> None:
        """Read the bodies' states from the engine; the quadrotors in ``standing`` rest on a surface."""
        engine.refresh(self._body)
        if self._mixed:
            self._flight[:] = self._body[:, self._fly]
        if standing:
            self.rotorcraft.rest(np.array(standing))

    def _which(self, index: NDArray[np.integer] | None) -> NDArray[np.integer]:
        """Return the indices of the selected robots, which must be quadrotors."""
        which = self._fly if index is None else checked_indices(index, len(self))
        if other := [self.robots[k] for k in which.tolist() if not self.robots[k].has_rotors]:
            raise ValueError(f"{other[0].name} is a {other[0].kind}: this is for quadrotors.")
        return which

    def _place(self, engine: Engine, index: int, state: Mapping[str, Array]) -> bool:
        """Set a quadrotor's state; return whether it stands."""
        motion = np.concatenate([state[name] for name in _MOTION])
        stands, slot = self._spawn.settled(index, motion), self.slot(index)
        engine.place(index, motion)
        self.rotorcraft.reset(slot, state["rotor_speed"])
        self._air.reset(slot)
        self._owed_s = 0.0
        return stands

    def _place_jointed(self, engine: Engine, index: int, state: Mapping[str, Array], ground: Array) -> None:
        level, still = np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3)
        rest = dict(zip(_MOTION, (ground, level, still, still)))
        motion = np.concatenate([state.get(name, rest[name]) for name in _MOTION])
        self._spawn.settled(index, motion)
        joints = self.robots[index].drives
        position = state.get("joint_position", rest_positions(joints))
        engine.place(index, motion)
        engine.place_joints(index, position, state.get("joint_velocity", np.zeros(len(joints))))
        hold = [at if joint.mode == "position" else 0.0 for joint, at in zip(joints, position)]
        engine.drive(index, "file", np.array(hold))
        self._before[:, index] = motion[7:]
        self._owed_s = 0.0
