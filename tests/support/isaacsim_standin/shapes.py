"""Shapes as the stage has them: how far a point is from one, and what a ray meets. By formula, without rlstack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass
class Shape:
    """A box, cylinder (axis z), sphere or the half-space below a plane (z up), posed in the world.

    ``body`` is the index of the rigid body that it is on, -1: it never moves; ``place`` (4, 4) is in that body's frame,
    or in the world.
    """

    path: str
    kind: str
    half: Array
    place: Array
    body: int
    colour: tuple[float, float, float]
    solid: bool
    seen: bool
    body_path: str = ""
    apart: bool = False
    """In the collision group whose members do not touch each other."""

    def distance(self, points: Array) -> Array:
        """Return the signed distance (P,) of points (P, 3) in the shape's own frame."""
        if self.kind == "plane":
            return points[:, 2]
        if self.kind == "sphere":
            return np.linalg.norm(points, axis=1) - self.half[0]
        if self.kind == "cylinder":
            gaps = np.stack([np.hypot(points[:, 0], points[:, 1]) - self.half[0], np.abs(points[:, 2]) - self.half[2]])
        else:
            gaps = (np.abs(points) - self.half).T
        return np.linalg.norm(np.maximum(gaps, 0.0), axis=0) + np.minimum(gaps.max(axis=0), 0.0)

    def normal(self, points: Array) -> Array:
        """Return the outward directions (P, 3) at points (P, 3), in the shape's own frame."""
        step = 1e-7
        slopes = [self.distance(points + step * axis) - self.distance(points - step * axis) for axis in np.eye(3)]
        found = np.stack(slopes, axis=1)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)

    def feelers(self) -> Array:
        """Return the points (P, 3), in its own frame, that feel other shapes."""
        x, y, z = self.half
        if self.kind == "box":
            return np.array([(a * x, b * y, c * z) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)])
        if self.kind == "cylinder":
            rim = [(x, 0.0), (0.0, x), (-x, 0.0), (0.0, -x)]
            return np.array([(a, b, c * z) for a, b in rim for c in (-1, 1)])
        return np.array([(x, 0, 0), (-x, 0, 0), (0, x, 0), (0, -x, 0), (0, 0, x), (0, 0, -x)])

    def pose(self, poses: Array) -> Array:
        """Return where it is in the world (4, 4), given all bodies' poses (N, 4, 4)."""
        return self.place if self.body < 0 else poses[self.body] @ self.place

    def trace(self, origins: Array, directions: Array, far: float, pose: Array) -> Array:
        """Return how far rays (R, 3) go until they meet it, infinite beyond ``far``: by marching the distance."""
        rotation, at = pose[:3, :3], pose[:3, 3]
        start, along = (origins - at) @ rotation, directions @ rotation
        gone = np.zeros(len(start))
        alive = np.ones(len(start), dtype=bool)
        met = np.full(len(start), np.inf)
        for _ in range(400):
            if not alive.any():
                break
            gap = self.distance(start[alive] + gone[alive, None] * along[alive])
            index = np.flatnonzero(alive)
            met[index[gap < 1e-7]] = gone[index[gap < 1e-7]]
            gone[index] += np.maximum(gap, 0.0)
            alive[index[(gap < 1e-7) | (gone[index] > far)]] = False
        return met


KINDS = {"Cube": "box", "Cylinder": "cylinder", "Sphere": "sphere", "Plane": "plane"}


def schemas(prim: Any) -> list[str]:
    """Return the names of a prim's API schemas, also those that only Isaac Sim's USD knows."""
    listed = prim.GetMetadata("apiSchemas")
    return list(listed.GetAddedOrExplicitItems()) if listed else []


def shape_of(prim: Any, bodies: dict[str, int], apart: set[str]) -> Shape | None:
    """Return the shape that a prim of the stage is; None where it is none that is known here."""
    from pxr import Usd, UsdGeom

    kind = KINDS.get(prim.GetTypeName())
    if kind is None:
        return None
    matrix = np.array(UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(Usd.TimeCode.Default())).T
    scale = np.linalg.norm(matrix[:3, :3], axis=0)
    place = np.array(matrix)
    place[:3, :3] /= scale
    if kind == "box":
        half = 0.5 * UsdGeom.Cube(prim).GetSizeAttr().Get() * scale
    elif kind == "sphere":
        half = UsdGeom.Sphere(prim).GetRadiusAttr().Get() * scale
    elif kind == "cylinder":
        cylinder = UsdGeom.Cylinder(prim)
        assert cylinder.GetAxisAttr().Get() == "Z", "the stand-in knows cylinders along z only"
        radius, height = cylinder.GetRadiusAttr().Get(), cylinder.GetHeightAttr().Get()
        half = np.array([radius, radius, 0.5 * height]) * scale
    else:
        assert UsdGeom.Plane(prim).GetAxisAttr().Get() == "Z", "the stand-in knows level planes only"
        half = np.ones(3)
    owner = prim
    while owner and str(owner.GetPath()) not in bodies:
        owner = owner.GetParent()
    body_path = str(owner.GetPath()) if owner else ""
    if body_path:
        base = np.array(UsdGeom.Xformable(owner).ComputeLocalToWorldTransform(Usd.TimeCode.Default())).T
        base[:3, :3] /= np.linalg.norm(base[:3, :3], axis=0)
        place = np.linalg.inv(base) @ place
    colours = UsdGeom.Gprim(prim).GetDisplayColorAttr().Get()
    return Shape(
        path=str(prim.GetPath()),
        kind=kind,
        half=half,
        place=place,
        body=bodies.get(body_path, -1),
        colour=tuple(colours[0]) if colours else (0.5, 0.5, 0.5),
        solid="PhysicsCollisionAPI" in schemas(prim),
        seen=UsdGeom.Imageable(prim).ComputePurpose() == UsdGeom.Tokens.default_,
        body_path=body_path,
        apart=any(str(prim.GetPath()).startswith(f"{path}/") for path in apart),
    )
