"""Articulations, read from the stage. **Their motion is made up**: this is no articulated-body simulation.

- A joint follows its drive by the drive's own law, taken implicitly, on an inertia of its own: the child link's about
  the joint's axis, the armature, and for a wheel on the floor its share of the robot's mass. Links do not pull on each
  other, and gravity does not pull on joints.
- A base whose wheels (endless joints that turn a cylinder) stand on the floor moves as they roll, without any slip or
  slope, and presses on the floor with its weight; what pushes it does not move it. In the air it falls.
- Robots with joints do not feel obstacles or each other; free bodies feel their shapes, as if those weighed endlessly.

What is true of Isaac Sim is what is asked for on the way: calls, order, shapes, units, and what the stage says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.isaacsim_standin.kit import Kit

Array = np.ndarray
ENDLESS = 1e30


@dataclass
class Joint:
    """One joint: from a frame on its parent to one on its child."""

    name: str
    parent: int
    child: int
    before: Array
    """(4, 4) on the parent."""
    after: Array
    """(4, 4) from the child's frame on, inverted."""
    axis: Array
    slides: bool
    moves: bool
    lower: float = -np.inf
    upper: float = np.inf
    accelerates: bool = False
    """Its drive's gains count for each unit of inertia."""

    def __post_init__(self) -> None:
        self.whole = self.before @ self.after
        """(4, 4) from the parent to the child, where it does not move."""


@dataclass
class Wheel:
    """An endless joint with a cylinder on the floor."""

    dof: int
    link: int
    radius: float
    centre: Array
    """(3,) in the root, at zero."""
    steering: int = -1
    """The joint that turns it, -1: none."""


class Articulation:
    """One articulation between ``reset()`` and ``stop()``.

    Args:
        kit: The process.
        prim: What bears the articulation.
        physics: Whose bodies its links are, all read already.
    """

    def __init__(self, kit: Kit, prim: Any, physics: Any) -> None:
        from pxr import UsdPhysics

        self.kit, self.physics = kit, physics
        self.fixed = prim.IsA(UsdPhysics.FixedJoint)
        top = prim.GetParent()
        root = UsdPhysics.FixedJoint(prim).GetBody1Rel().GetTargets()[0] if self.fixed else prim.GetPath()
        found = [p for p in prim.GetStage().Traverse() if p.GetPath().HasPrefix(top.GetPath())]
        joints = [p for p in found if p.IsA(UsdPhysics.Joint) and UsdPhysics.Joint(p).GetBody0Rel().GetTargets()]
        self.links, self.joints = [str(root)], []
        level = [str(root)]
        while level:  # breadth first, as PhysX has it; and each level backwards, so that nobody may rely on the file's
            below = []
            for joint in reversed(joints):
                if str(UsdPhysics.Joint(joint).GetBody0Rel().GetTargets()[0]) in level:
                    child = str(UsdPhysics.Joint(joint).GetBody1Rel().GetTargets()[0])
                    below.append(child)
                    self.links.append(child)
                    self.joints.append(self._read(joint))
            level = below
        self.bodies = np.array([physics.index[path] for path in self.links])
        self.dofs = [joint for joint in self.joints if joint.moves]
        self.body_names = [path.rsplit("/", 1)[-1] for path in self.links]
        self.dof_names = [joint.name for joint in self.dofs]
        count = len(self.dofs)
        for name in ("position", "velocity", "stiffness", "damping", "target", "speed", "effort", "armature"):
            setattr(self, name, np.zeros(count, np.float32))
        self.strongest, self.fastest = np.full(count, np.float32(3e38)), np.full(count, np.float32(3e38))
        self.inertia = np.array([self._inertia(joint) for joint in self.dofs])
        self.limits = np.array([(joint.lower, joint.upper) for joint in self.dofs]).reshape(-1, 2).T
        self.wheels = self._find_wheels()
        self.floor = any(shape.kind == "plane" and shape.solid for shape in physics.shapes)
        self.spread()

    position: Array
    velocity: Array
    stiffness: Array
    damping: Array
    target: Array
    speed: Array
    effort: Array
    armature: Array

    def _read(self, prim: Any) -> Joint:
        from pxr import UsdPhysics

        joint = UsdPhysics.Joint(prim)
        parent = self.links.index(str(joint.GetBody0Rel().GetTargets()[0]))
        before = _pose(joint.GetLocalPos0Attr().Get(), joint.GetLocalRot0Attr().Get())
        after = np.linalg.inv(_pose(joint.GetLocalPos1Attr().Get(), joint.GetLocalRot1Attr().Get()))
        made = Joint(prim.GetName(), parent, len(self.links) - 1, before, after, np.zeros(3), False, False)
        if prim.IsA(UsdPhysics.FixedJoint):
            return made
        made.slides, made.moves = prim.IsA(UsdPhysics.PrismaticJoint), True
        own = UsdPhysics.PrismaticJoint(prim) if made.slides else UsdPhysics.RevoluteJoint(prim)
        made.axis = np.eye(3)["XYZ".index(own.GetAxisAttr().Get())]
        unit = 1.0 if made.slides else np.radians(1.0)
        made.lower, made.upper = unit * own.GetLowerLimitAttr().Get(), unit * own.GetUpperLimitAttr().Get()
        drive = UsdPhysics.DriveAPI(prim, "linear" if made.slides else "angular")
        made.accelerates = bool(drive) and drive.GetTypeAttr().Get() == "acceleration"
        return made

    def _find_wheels(self) -> list[Wheel]:
        zero, wheels = self._chain(np.zeros(len(self.dofs))), []
        for number, joint in enumerate(self.dofs):
            link = self.bodies[joint.child]
            round_ = [s for s in self.physics.shapes if s.body == link and s.solid and s.kind == "cylinder"]
            if joint.slides or joint.lower > -ENDLESS or not round_ or self.fixed:
                continue
            wheel = Wheel(number, joint.child, float(round_[0].half[0]), zero[joint.child][:3, 3])
            above = [k for k, other in enumerate(self.dofs) if other.child == joint.parent]
            wheel.steering = above[0] if above else -1
            wheels.append(wheel)
        return wheels

    def _chain(self, position: Array) -> list[Array]:
        """Return the links' poses (4, 4) in the root."""
        poses = [np.eye(4)] * len(self.links)
        at = iter(position.tolist())
        for joint in self.joints:
            if joint.moves:
                poses[joint.child] = poses[joint.parent] @ joint.before @ _motion(joint, next(at)) @ joint.after
            else:
                poses[joint.child] = poses[joint.parent] @ joint.whole
        return poses

    def spread(self) -> None:
        """Put all links where the root and the joints are."""
        physics, base = self.physics, self.bodies[0]
        root = physics.pose(base)
        poses = [root @ pose for pose in self._chain(self.position.astype(float))]
        angular = [np.zeros(3)] * len(self.links)
        origin = [np.zeros(3)] * len(self.links)
        angular[0] = physics.velocity[base, 3:].astype(float)
        origin[0] = self.root_velocity()
        rates = iter(self.velocity.astype(float).tolist())
        for joint in self.joints:
            parent, child = joint.parent, joint.child
            lever = poses[child][:3, 3] - poses[parent][:3, 3]
            angular[child] = angular[parent]
            origin[child] = origin[parent] + _cross(angular[parent], lever)
            if joint.moves:
                axis = next(rates) * (poses[parent][:3, :3] @ joint.before[:3, :3] @ joint.axis)
                if joint.slides:
                    origin[child] = origin[child] + axis
                else:
                    angular[child] = angular[child] + axis
        for k, body in enumerate(self.bodies):
            if k:
                physics.set_pose(body, poses[k])
            arm = poses[k][:3, :3] @ physics.centre[body]
            physics.velocity[body] = np.concatenate([origin[k] + _cross(angular[k], arm), angular[k]])

    def root_velocity(self) -> Array:
        """Return the velocity (3,) of the root's origin, which is not that of its centre of mass."""
        base = self.bodies[0]
        velocity = self.physics.velocity[base].astype(float)
        arm = self.physics.pose(base)[:3, :3] @ self.physics.centre[base]
        return velocity[:3] - _cross(velocity[3:], arm)

    def step(self, duration: float) -> None:
        """Let one step pass."""
        height = self._height() if self.wheels else np.inf
        rolling = self.floor and height < 1e-3
        self._step_joints(duration, rolling)
        if not self.fixed:
            self._step_base(duration, rolling, height)
        self.spread()

    def _step_joints(self, duration: float, rolling: bool) -> None:
        if not self.dofs:
            return
        inertia = self.inertia + self.armature
        if rolling:
            share = self.physics.mass[self.bodies].sum() / len(self.wheels)
            for wheel in self.wheels:
                inertia[wheel.dof] += share * wheel.radius**2
        scale = np.where([joint.accelerates for joint in self.dofs], inertia, 1.0)
        stiffness, damping = scale * self.stiffness, scale * self.damping
        position, velocity = self.position.astype(float), self.velocity.astype(float)
        pull = stiffness * (self.target - position) + damping * self.speed
        after = (velocity + duration / inertia * pull) / (1.0 + duration / inertia * (damping + duration * stiffness))
        drive = np.clip(inertia * (after - velocity) / duration, -self.strongest, self.strongest)
        velocity += duration / inertia * (drive + self.effort)
        velocity = np.clip(velocity, -self.fastest, self.fastest)
        position += duration * velocity
        low, high = self.limits
        velocity[(position < low) | (position > high)] = 0.0
        self.position[:], self.velocity[:] = np.clip(position, low, high), velocity
        self.effort[:] = 0.0  # they act in one step only

    def _inertia(self, joint: Joint) -> float:
        body = self.bodies[joint.child]
        if joint.slides:
            return float(self.physics.mass[body])
        axis = np.linalg.inv(joint.after)[:3, :3] @ joint.axis
        arm = _cross(axis, self.physics.centre[body] - np.linalg.inv(joint.after)[:3, 3])
        return float(axis @ self.physics.tensor[body] @ axis + self.physics.mass[body] * arm @ arm)

    def _height(self) -> float:
        """Return how far the lowest wheel is above z = 0."""
        root = self.physics.pose(self.bodies[0])
        return min(float(root[2, 3] + root[2, :3] @ w.centre) - w.radius for w in self.wheels)

    def _step_base(self, duration: float, rolling: bool, height: float) -> None:
        physics, base = self.physics, self.bodies[0]
        root = physics.pose(base)
        velocity, angular = self.root_velocity(), physics.velocity[base, 3:].astype(float)
        if rolling:
            forward, turn, axle = self._roll()
            ahead = root[:3, 0] * [1.0, 1.0, 0.0]
            ahead /= np.linalg.norm(ahead)
            angular = np.array([0.0, 0.0, turn])
            velocity = forward * ahead - axle * _cross(angular, ahead)
            velocity[2] = -height / duration
            weight = -duration * physics.gravity * physics.mass[self.bodies].sum() / len(self.wheels)
            for wheel in self.wheels:
                physics.impulse[self.bodies[wheel.link]] += weight
        else:
            velocity += duration * (physics.gravity + physics.force[base] / physics.mass[base])
        moved = np.array(root)
        moved[:3, 3] += duration * velocity
        turned = _turn(angular * duration)
        moved[:3, :3] = turned @ root[:3, :3]
        physics.set_pose(base, moved)
        if self.wheels and self.floor and not rolling and (below := self._height()) < 0.0:
            moved[2, 3] -= below
            physics.set_pose(base, moved)
        if rolling:
            velocity[2] = 0.0
        arm = moved[:3, :3] @ physics.centre[base]
        physics.velocity[base] = np.concatenate([velocity + _cross(angular, arm), angular])

    def _roll(self) -> tuple[float, float, float]:
        """Return forward and turning speed that no wheel slips at, as good as it goes, and the axle's x."""
        straight = [w.centre[0] for w in self.wheels if w.steering < 0]
        axle = float(np.mean(straight)) if straight else 0.0
        rows, values = [], []
        for wheel in self.wheels:
            x, y = wheel.centre[0] - axle, wheel.centre[1]
            angle = 0.0 if wheel.steering < 0 else float(self.position[wheel.steering])
            rows.append((np.cos(angle), x * np.sin(angle) - y * np.cos(angle)))
            values.append(wheel.radius * float(self.velocity[wheel.dof]))
            if wheel.steering >= 0:
                rows.append((-np.sin(angle), y * np.sin(angle) + x * np.cos(angle)))
                values.append(0.0)
        forward, turn = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0].tolist()
        return forward, turn, axle


def _pose(position: Any, rotation: Any) -> Array:
    from tests.support.isaacsim_standin.physics import to_matrix

    found = np.eye(4)
    found[:3, :3] = to_matrix(np.array([[rotation.GetReal(), *rotation.GetImaginary()]]))[0]
    found[:3, 3] = position
    return found


def _motion(joint: Joint, amount: float) -> Array:
    found = np.eye(4)
    if joint.slides:
        found[:3, 3] = amount * joint.axis
    else:
        found[:3, :3] = _turn(amount * joint.axis)
    return found


def _cross(left: Array, right: Array) -> Array:
    """Return left x right: ``np.cross`` takes ten times as long for three numbers."""
    (a, b, c), (x, y, z) = left.tolist(), right.tolist()
    return np.array([b * z - c * y, c * x - a * z, a * y - b * x])


def _turn(vector: Array) -> Array:
    """Return the rotation (3, 3) by a rotation vector (3,)."""
    x, y, z = vector.tolist()
    angle = math.sqrt(x * x + y * y + z * z)
    if angle < 1e-15:
        return np.eye(3)
    x, y, z = x / angle, y / angle, z / angle
    s, c = math.sin(angle), math.cos(angle)
    t = 1.0 - c
    return np.array(
        [
            [c + t * x * x, t * x * y - s * z, t * x * z + s * y],
            [t * x * y + s * z, c + t * y * y, t * y * z - s * x],
            [t * x * z - s * y, t * y * z + s * x, c + t * z * z],
        ]
    )
