"""Rigid bodies read from the stage and integrated in numpy; single precision between steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.support.isaacsim_standin.articulations import Articulation
from tests.support.isaacsim_standin.kit import Kit
from tests.support.isaacsim_standin.shapes import Shape, schemas, shape_of

Array = np.ndarray
Vector = Sequence[float]
Matrix = Sequence[Sequence[float]]
FRICTION = 1.0
DEFAULT_ANGULAR_DAMPING = 0.05
"""Of PhysxRigidBodyAPI where the stage does not say."""
MOST_RAD_S = np.radians(5729.58)
"""Likewise."""
ITERATIONS = 30


def to_matrix(quaternion: Array) -> Array:
    """Return rotations (N, 3, 3) of quaternions (N, 4) wxyz."""
    return np.array([_rows(*q) for q in np.asarray(quaternion, dtype=float).tolist()]).reshape(-1, 3, 3)


def _rows(w: float, x: float, y: float, z: float) -> list[list[float]]:
    """Return one rotation: in numbers, for a handful of bodies arrays take several times as long."""
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]


def turned(quaternion: Array, rates: Array, duration: float) -> Array:
    """Return quaternions (N, 4) wxyz after turning with world rates (N, 3) for a while."""
    angle = _lengths(rates)[:, 0] * duration
    share = np.where(angle > 1e-12, np.sin(0.5 * angle) / np.maximum(angle, 1e-300), 0.5)
    v, w = rates * (share * duration)[:, None], np.cos(0.5 * angle)
    qw, qv = quaternion[:, 0], quaternion[:, 1:]
    real = w * qw - (v * qv).sum(axis=1)
    imaginary = w[:, None] * qv + qw[:, None] * v + _cross(v, qv)
    whole = np.concatenate([real[:, None], imaginary], axis=1)
    return whole / _lengths(whole)


def _cross(left: Array, right: Array) -> Array:
    """Return left x right (N, 3)."""
    (a, b, c), (x, y, z) = left.T, right.T
    return np.stack([b * z - c * y, c * x - a * z, a * y - b * x], axis=1)


def _lengths(rows: Array) -> Array:
    """Return the lengths (N, 1) of rows (N, M)."""
    return np.sqrt(np.einsum("ni,ni->n", rows, rows))[:, None]


def _quaternion(rotation: Array) -> tuple[float, float, float, float]:
    """Return wxyz of a rotation (3, 3), from whichever of the four is largest."""
    (a, b, c), (d, e, f), (g, h, i) = rotation.tolist()
    squares = (1.0 + a + e + i, 1.0 + a - e - i, 1.0 - a + e - i, 1.0 - a - e + i)
    largest = max(range(4), key=squares.__getitem__)
    twice = math.sqrt(squares[largest])
    share = 0.5 / twice
    pairs = ((0, h - f, c - g, d - b), (h - f, 0, b + d, c + g), (c - g, b + d, 0, f + h), (d - b, c + g, f + h, 0))
    w, x, y, z = (0.5 * twice if k == largest else share * pairs[largest][k] for k in range(4))
    return w, x, y, z


def _dot(left: Vector, right: Vector) -> float:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def _add(left: Vector, right: Vector, share: float = 1.0) -> Vector:
    """Return left + share * right."""
    return left[0] + share * right[0], left[1] + share * right[1], left[2] + share * right[2]


def _times(matrix: Matrix, vector: Vector) -> Vector:
    x, y, z = vector
    (a, b, c), (d, e, f), (g, h, i) = matrix
    return a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + i * z


class Contact(NamedTuple):
    """A point near a solid."""

    key: tuple[str, int, str]
    bodies: list[tuple[int, float, Matrix, Matrix]]
    """Each that it moves: index, sign of the push, and matrices (3, 3) from its rates to the point's velocity (with the
    sign), and from an impulse to the change of its rates."""
    give: Matrix
    """(3, 3) from an impulse to the change of the points' relative velocity."""
    normal: Vector
    gap: float
    """m."""


def skew(arm: Array) -> Array:
    """Return the matrix (3, 3) of the cross product with a vector on its left."""
    x, y, z = arm.tolist()
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


class Physics:
    """All that moves and all that is solid on a stage, from ``reset()`` to ``stop()``."""

    def __init__(self, kit: Kit, stage: Any, gravity: float, step: float) -> None:
        from pxr import Usd, UsdPhysics

        prims = list(Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies()))
        self.paths = [str(p.GetPath()) for p in prims if p.HasAPI(UsdPhysics.RigidBodyAPI)]
        self.index = {path: k for k, path in enumerate(self.paths)}
        apart: set[str] = set()
        for prim in prims:
            if prim.IsA(UsdPhysics.CollisionGroup):
                group = UsdPhysics.CollisionGroup(prim)
                kit.require(
                    group.GetFilteredGroupsRel().GetTargets() == [prim.GetPath()], "only groups that filter themselves"
                )
                apart |= {str(t) for t in group.GetCollidersCollectionAPI().GetIncludesRel().GetTargets()}
        found = (shape_of(p, self.index, apart) for p in prims)
        self.shapes = [shape for shape in found if shape is not None]
        self.gravity, self.step_s = np.array([0.0, 0.0, gravity]), step
        count = len(self.paths)
        self.position = np.zeros((count, 3), np.float32)
        self.orientation = np.zeros((count, 4), np.float32)
        self.velocity = np.zeros((count, 6), np.float32)
        self.mass, self.inertia = np.zeros(count), np.zeros((count, 3))
        self.damping, self.most = np.zeros((count, 2)), np.zeros(count)
        self.gyroscopic = np.zeros(count, dtype=bool)
        self.centre, self.tensor = np.zeros((count, 3)), np.zeros((count, 3, 3))
        """Of each body: centre of mass, and inertia about it, both in its own frame."""
        for k, path in enumerate(self.paths):
            self._read(kit, k, stage.GetPrimAtPath(path))
        self.force, self.torque = np.zeros((count, 3)), np.zeros((count, 3))
        self.impulse = np.zeros((count, 3))
        """Of contacts in the last step, N s."""
        self._kept: dict[tuple[str, int, str], tuple[float, Vector]] = {}
        self.articulations = {
            str(p.GetPath()): Articulation(kit, p, self) for p in prims if p.HasAPI(UsdPhysics.ArticulationRootAPI)
        }
        linked = {int(body) for one in self.articulations.values() for body in one.bodies}
        self._linked = np.array([k in linked for k in range(count)], dtype=bool)
        self._solid = [shape for shape in self.shapes if shape.solid]
        self._feelers = [(s, s.feelers()) for s in self._solid if s.body >= 0 and s.body not in linked]

    def _read(self, kit: Kit, k: int, prim: Any) -> None:
        from pxr import Usd, UsdGeom, UsdPhysics

        matrix = UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(Usd.TimeCode.Default()).RemoveScaleShear()
        quaternion = matrix.ExtractRotationQuat()
        self.position[k] = matrix.ExtractTranslation()
        self.orientation[k] = [quaternion.GetReal(), *quaternion.GetImaginary()]
        api = UsdPhysics.MassAPI(prim)
        kit.require(bool(api), f"{prim.GetPath()} has no mass: PhysX would take its shapes' volume as water")
        self.mass[k] = api.GetMassAttr().Get()
        self.inertia[k] = api.GetDiagonalInertiaAttr().Get() or (0.0, 0.0, 0.0)
        if not self.inertia[k].any():
            own = next(s for s in self.shapes if s.body == k and s.solid)
            x, y, z = 2.0 * own.half
            self.inertia[k] = self.mass[k] / 12.0 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
        self._read_inertia(api, k)
        kit.require(self.mass[k] > 0.0 and bool((self.inertia[k] > 0.0).all()), f"{prim.GetPath()} has no inertia")

        def own_or(name: str, default: Any) -> Any:
            attribute = prim.GetAttribute(f"physxRigidBody:{name}")
            applied = "PhysxRigidBodyAPI" in schemas(prim)
            return attribute.Get() if applied and attribute else default

        self.damping[k] = own_or("linearDamping", 0.0), own_or("angularDamping", DEFAULT_ANGULAR_DAMPING)
        self.most[k] = np.radians(own_or("maxAngularVelocity", np.degrees(MOST_RAD_S)))
        self.gyroscopic[k] = own_or("enableGyroscopicForces", True)

    def _read_inertia(self, api: Any, k: int) -> None:
        self.centre[k] = [x if np.isfinite(x) else 0.0 for x in api.GetCenterOfMassAttr().Get()]
        axes = api.GetPrincipalAxesAttr().Get()
        turn = np.array([[axes.GetReal(), *axes.GetImaginary()]])
        principal = to_matrix(turn)[0] if abs(np.linalg.norm(turn) - 1.0) < 1e-3 else np.eye(3)
        self.tensor[k] = principal @ np.diag(self.inertia[k]) @ principal.T

    def pose(self, k: int) -> Array:
        """Return one body's pose (4, 4)."""
        found = np.eye(4)
        found[:3, :3], found[:3, 3] = to_matrix(self.orientation[k][None])[0], self.position[k]
        return found

    def set_pose(self, k: int, pose: Array) -> None:
        """Put one body to a pose (4, 4)."""
        self.position[k], self.orientation[k] = pose[:3, 3], _quaternion(pose[:3, :3])

    def poses(self) -> Array:
        """Return the bodies' poses (N, 4, 4)."""
        found = np.tile(np.eye(4), (len(self.paths), 1, 1))
        found[:, :3, :3], found[:, :3, 3] = to_matrix(self.orientation), self.position
        return found

    def step(self) -> None:
        """Let one step pass: forces, damping, gyroscopic term, contacts, then poses by the new velocities."""
        self.impulse[:] = 0.0
        if not self._linked.all():
            self._step_free()
        for articulation in self.articulations.values():
            articulation.step(self.step_s)
        self.force[:], self.torque[:] = 0.0, 0.0

    def _step_free(self) -> None:
        """Let one step pass for what is no robot's link."""
        h, rotation = self.step_s, to_matrix(self.orientation)
        velocity = self.velocity.astype(float)
        linear, angular = velocity[:, :3], velocity[:, 3:]
        linear += h * (self.gravity + self.force / self.mass[:, None])
        inverse = np.einsum("nij,nj,nkj->nik", rotation, 1.0 / self.inertia, rotation)
        inverse[self._linked] = 0.0  # nothing that is touched moves a link
        angular += h * np.einsum("nij,nj->ni", inverse, self.torque)
        linear *= 1.0 - h * self.damping[:, :1]
        angular *= 1.0 - h * self.damping[:, 1:]
        rate = _lengths(angular)
        angular *= np.minimum(1.0, self.most[:, None] / np.maximum(rate, 1e-9))
        self._turn_gyroscopically(angular, rotation)
        velocity[self._linked] = self.velocity[self._linked]
        self._press(linear, angular, inverse)
        free = ~self._linked
        self.velocity[free] = np.concatenate([linear, angular], axis=1)[free]
        self.position[free] = (self.position + h * linear)[free]
        self.orientation[free] = turned(self.orientation.astype(float), angular, h)[free]

    def _turn_gyroscopically(self, angular: Array, rotation: Array) -> None:
        """Turn the angular momentum against -w x J w for one step and keep its length, as PhysX does."""
        local = np.einsum("nji,nj->ni", rotation, angular)
        momentum = self.inertia * local
        moved = momentum - self.step_s * _cross(local, momentum)
        length, before = (_lengths(m) for m in (moved, momentum))
        moved *= np.where(length > 0.0, before / np.where(length > 0.0, length, 1.0), 0.0)
        after = np.einsum("nij,nj->ni", rotation, moved / self.inertia)
        angular[self.gyroscopic] = after[self.gyroscopic]

    def _press(self, linear: Array, angular: Array, inverse: Array) -> None:
        """Give points that would go into a solid the impulses that stop them, with friction."""
        contacts = self._contacts(np.abs(linear).max(initial=0.0) + 1.0, inverse)
        if not contacts:
            self._kept = {}
            return
        # in numbers, not arrays: these are a few vectors of 3, many times a step
        straight = [_dot(contact.normal, _times(contact.give, contact.normal)) for contact in contacts]
        totals = [self._kept.get(contact.key, (0.0, (0.0, 0.0, 0.0))) for contact in contacts]
        moving, turning = linear.tolist(), angular.tolist()
        lightness = [0.0 if linked else 1.0 / mass for linked, mass in zip(self._linked.tolist(), self.mass.tolist())]

        def give(contact: Contact, change: Vector) -> None:
            for k, sign, _, turn in contact.bodies:
                moving[k] = _add(moving[k], change, sign * lightness[k])
                turning[k] = _add(turning[k], _times(turn, change))

        for contact, (size, along) in zip(contacts, totals):  # from where the last step ended
            give(contact, _add(along, contact.normal, size))
        for _ in range(ITERATIONS):
            largest = 0.0
            for i, contact in enumerate(contacts):
                normal, (size, along) = contact.normal, totals[i]
                slip: Vector = (0.0, 0.0, 0.0)
                for k, sign, lever, _ in contact.bodies:
                    slip = _add(_add(slip, moving[k], sign), _times(lever, turning[k]))
                toward = _dot(normal, slip)
                new = max(0.0, size - (contact.gap / self.step_s + toward) / straight[i])
                side, held = _add(slip, normal, -toward), along
                speed = math.sqrt(_dot(side, side))
                if speed > 1e-12:
                    way = (side[0] / speed, side[1] / speed, side[2] / speed)
                    held = _add(along, side, -1.0 / _dot(way, _times(contact.give, way)))
                    share = min(1.0, FRICTION * new / max(math.sqrt(_dot(held, held)), 1e-300))
                    held = (share * held[0], share * held[1], share * held[2])
                change = _add(_add(held, along, -1.0), normal, new - size)
                totals[i] = new, held
                give(contact, change)
                largest = max(largest, _dot(change, change))
            if largest < 1e-18:  # 1e-9 N s, where a step of weight is some 1e-4
                break
        linear[:], angular[:] = moving, turning
        self._kept = {contact.key: total for contact, total in zip(contacts, totals)}
        for contact, (size, along) in zip(contacts, totals):
            for k, sign, *_ in contact.bodies:
                self.impulse[k] += sign * np.array(_add(along, contact.normal, size))

    def _contacts(self, speed: float, inverse: Array) -> list[Contact]:
        poses, reach, found = self.poses(), 0.002 + 2.0 * speed * self.step_s, []
        for shape, points in self._feelers:
            pose = shape.pose(poses)
            world = points @ pose[:3, :3].T + pose[:3, 3]
            for other in self._solid:
                if other.body == shape.body or (shape.apart and other.apart):
                    continue
                place = other.pose(poses)
                local = (world - place[:3, 3]) @ place[:3, :3]
                gaps = other.distance(local)
                near = np.flatnonzero(gaps < reach)
                if not len(near):
                    continue
                normals = other.normal(local[near]) @ place[:3, :3].T
                for i, normal in zip(near.tolist(), normals):
                    bodies, give = [], np.zeros((3, 3))
                    for k, sign in ((shape.body, 1.0), (other.body, -1.0)):
                        if k >= 0:
                            arm = skew(world[i] - poses[k][:3, 3])
                            bodies.append((k, sign, (-sign * arm).tolist(), (sign * inverse[k] @ arm).tolist()))
                            give += (not self._linked[k]) * np.eye(3) / self.mass[k] - arm @ inverse[k] @ arm
                    key = shape.path, i, other.path
                    found.append(Contact(key, bodies, give.tolist(), normal.tolist(), float(gaps[i])))
        return found

    def trace(self, origins: Array, directions: Array, far: float, *, seen: bool = False) -> list[tuple[Shape, Array]]:
        """Return for each solid (or seen) shape how far rays go until they meet it."""
        poses = self.poses()
        shapes = [s for s in self.shapes if (s.seen if seen else s.solid)]
        return [(s, s.trace(origins, directions, far, s.pose(poses))) for s in shapes]
