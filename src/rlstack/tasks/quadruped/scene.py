"""N standing quadrupeds in MuJoCo worlds with payloads, pushes and noise, shared by training and verification."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from rlstack.arrays import Array, Index, Mask
from rlstack.kinds.quadruped.models import lowest_foot
from rlstack.kinds.quadruped.spec import Quadruped
from rlstack.robots import frames
from rlstack.robots.links import Link, LinkBox, LinkInertial
from rlstack.robots.mjcf import BODY, add_robot, new_world, set_inertial
from rlstack.sim.batch_mujoco import make_mujoco_simulator
from rlstack.sim.batch_mujoco.simulator import MujocoSimulator, box_inertia

TIMESTEP_S = 0.005
"""Physics step; MuJoCo's default contact stiffness, a time constant of 20 ms, needs steps of at most 10 ms."""

PAYLOAD = "payload"
"""Name of the box on the trunk."""
_PAYLOAD_SIZE_M = (0.2, 0.12, 0.06)


@dataclass(frozen=True)
class StandTrials:
    """Initial conditions and disturbances of N trials.

    Args:
        joints: (N, joints) joint positions at the start, rad.
        height_m: (N,) height of ``base_link`` at the start, with the lowest foot on the floor.
        payload_kg: (N,) mass of the payload.
        push_m_s: (N, 3) velocity that a push adds to the trunk, world.
        push_step: (N,) control period of the push.
    """

    joints: Array
    height_m: Array
    payload_kg: Array
    push_m_s: Array
    push_step: Index

    def __len__(self) -> int:
        return len(self.joints)

    def take(self, index: Any) -> StandTrials:
        """Return the trials at ``index``."""
        return StandTrials(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


def draw_trials(task: Any, robot: Quadruped, rng: np.random.Generator, count: int) -> StandTrials:
    """Draw trials of a task such as ``quadruped_stand``."""
    joints = robot.standing + task.start_rad * rng.uniform(-1.0, 1.0, (count, len(robot.drives)))
    joints = np.clip(joints, [d.lower for d in robot.drives], [d.upper for d in robot.drives])
    (light, heavy), push = task.payload_kg, draw_pushes(task.push_m_s, rng, count)
    earliest, latest = (round(moment * task.rate_hz) for moment in task.push_at_s)
    return StandTrials(
        joints=joints,
        height_m=lowest_foot(robot, joints),
        payload_kg=rng.uniform(light, heavy, count),
        push_m_s=push,
        push_step=rng.integers(earliest, latest, count, endpoint=True),
    )


def draw_pushes(speed_m_s: tuple[float, float], rng: np.random.Generator, count: int) -> Array:
    """Draw velocities (count, 3) m/s over the floor, of any direction, with speeds in a range."""
    heading, speed = rng.uniform(-np.pi, np.pi, count), rng.uniform(speed_m_s[0], speed_m_s[1], count)
    return np.stack([speed * np.cos(heading), speed * np.sin(heading), np.zeros(count)], axis=1)


def carrying(robot: Quadruped, payload_kg: float) -> Quadruped:
    """Return the robot with a box on its trunk."""
    xx, yy, zz = box_inertia(0.5 * np.array(_PAYLOAD_SIZE_M), payload_kg).tolist()
    top = max((box.position_m[2] + 0.5 * box.size_m[2] for box in robot.links[0].boxes), default=0.0)
    payload = Link(
        name=PAYLOAD,
        parent=BODY,
        position_m=(0.0, 0.0, top + 0.5 * _PAYLOAD_SIZE_M[2]),
        inertial=LinkInertial(mass_kg=payload_kg, inertia_kg_m2=(xx, yy, zz, 0.0, 0.0, 0.0)),
        boxes=(LinkBox(size_m=_PAYLOAD_SIZE_M),),
    )
    return replace(robot, links=(*robot.links, payload))


def stand_worlds(
    robot: Quadruped, count: int, *, period_s: float, device: str = "cpu", threads: int | None = None
) -> MujocoSimulator:
    """Return N worlds, each with a floor and a robot with its own payload; errors as of ``make_mujoco_simulator``."""
    spec, loaded = new_world(timestep_s=TIMESTEP_S), carrying(robot, 1.0)
    add_robot(spec, loaded, timestep_s=TIMESTEP_S)
    payload = spec.body(PAYLOAD)
    payload.geoms[0].name = PAYLOAD
    inertial = loaded.links[-1].inertial
    assert inertial is not None
    payload.fullinertia = [np.nan] * 6  # MuJoCo would sort the moments, and worlds vary them along the box's own axes
    set_inertial(payload, inertial.piece)
    return make_mujoco_simulator(
        spec.compile(), robot.drives, count, period_s=period_s, varied=True, device=device, threads=threads
    )


class StandScene:
    """N quadrupeds in their trials; arguments as of :class:`rlstack.tasks.manipulator.scene.ArmScene`."""

    def __init__(
        self, task: Any, robot: Quadruped, count: int, seed: int, threads: int | None = None, device: str = "cpu"
    ) -> None:
        self.task, self.robot, self.count = task, robot, count
        self.worlds = stand_worlds(robot, count, period_s=1.0 / task.rate_hz, device=device, threads=threads)
        self.payload_kg, self.push_m_s = np.ones(count), np.zeros((count, 3))
        self.push_step = np.zeros(count, dtype=np.intp)
        self.foot_friction, self.gains = np.ones(count), np.ones((count, len(robot.drives)))
        """Shares of the robot file's, (N,) and (N, joints)."""
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Seed the noise."""
        self.rng = np.random.default_rng((seed, 1))

    def start(self, index: Index, trials: StandTrials) -> None:
        """Begin trials (n) in some worlds."""
        self.worlds.restart(index, trials.joints)
        place = np.zeros((len(index), 3))
        place[:, 2] = trials.height_m
        self.worlds.place(index, BODY, place, np.tile([0.0, 0.0, 0.0, 1.0], (len(index), 1)))
        self.push_m_s[index], self.push_step[index] = trials.push_m_s, trials.push_step
        self.load(index, trials.payload_kg)

    def load(self, index: Index, payload_kg: Array) -> None:
        """Set the payloads (n,) kg in some worlds."""
        self.payload_kg[index] = payload_kg
        half = np.tile(0.5 * np.array(_PAYLOAD_SIZE_M), (len(index), 1))
        self.worlds.vary(index, PAYLOAD, half, payload_kg, np.ones(len(index)))

    def vary(self, index: Index, foot_friction: Array, gains: Array) -> None:
        """Set the feet's friction (n,) and the joints' gains (n, joints), as shares of the file's, in some worlds."""
        self.foot_friction[index], self.gains[index] = foot_friction, gains
        for foot in self.robot.feet.links:
            self.worlds.vary_friction(index, foot, self.robot.feet.friction * foot_friction)
        self.worlds.vary_gains(index, gains)

    def push(self, age: Index) -> None:
        """Push the robots whose trial's ``age`` (N,), in control periods, is that of their push."""
        linear, _ = self.worlds.twist(BODY)  # a view of the states
        pushed = age == self.push_step
        linear[pushed] += self.push_m_s[pushed]

    def step(self, command: Array) -> None:
        """Advance one control period under ``command`` (N, joints), rad."""
        self.worlds.step(command)

    def true(self, images: bool = True) -> dict[str, Array]:
        """Return the present signals (N, ...), without noise; there are no ``images``."""
        _, orientation = self.worlds.pose(BODY)
        linear, angular = self.worlds.twist(BODY)
        return {
            "orientation": orientation,
            "linear_velocity": frames.rotate_inverse(orientation, linear),
            "angular_velocity": angular,
            "joint_position": self.worlds.joint_position,
            "joint_velocity": self.worlds.joint_velocity,
        }

    def noisy(self, signals: dict[str, Array]) -> dict[str, Array]:
        """Return signals (n, ...) with sensor noise."""
        return noisy(self.task.noise, signals, self.rng)

    def posture(self) -> tuple[Array, Array, Array]:
        """Return heights (N,) m of ``base_link`` above the floor, tilts (N,) rad and places (N, 2) m over the floor."""
        position, orientation = self.worlds.pose(BODY)
        return position[:, 2], frames.tilt(orientation), position[:, :2]

    def lost(self) -> Mask:
        """Return (N,) whether a robot has fallen or its state is not finite."""
        height, tilt, _ = self.posture()
        fallen: Mask = ~np.isfinite(self.worlds.state).all(axis=1) | self.task.fallen(height, tilt)
        return fallen

    def close(self) -> None:
        """Stop the threads."""
        self.worlds.close()


def noisy(noise: Any, signals: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Return signals (..., elements) with white noise; fields of ``noise`` are its standard deviations."""
    sensed = dict(signals)
    for name in ("linear_velocity", "angular_velocity", "joint_position", "joint_velocity"):
        sensed[name] = signals[name] + getattr(noise, name) * rng.standard_normal(signals[name].shape)
    turn = noise.orientation * rng.standard_normal((*signals["orientation"].shape[:-1], 3))
    sensed["orientation"] = frames.multiply(signals["orientation"], frames.from_rotation_vector(turn))
    return sensed
