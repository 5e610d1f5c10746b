"""The robots of one Isaac Sim world: quadrotors as rigid bodies in one view, jointed robots as articulations."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlstack.arrays import Array
from rlstack.robots import RobotSpec
from rlstack.sim.backends.isaac import convert, stage
from rlstack.sim.backends.isaac.api_5 import World5
from rlstack.sim.backends.isaac.articulated import ArticulatedRobot
from rlstack.sim.backends.isaac.imported import ImportedRobot, retire_sources, settle_imported
from rlstack.sim.backends.isaac.urdf import importable_urdf
from rlstack.sim.engine import BODY_ROWS, MassProperties

if TYPE_CHECKING:
    from rlstack.kinds.quadrotor.spec import Quadrotor

_ABOVE_M = 1000.0
"""Initial height of robots: above everything, because starting takes two physics steps."""
_APART_M = 10.0
_NEAR_M = 1e-2
"""Tolerance of an articulation's position, read in single precision a thousand metres from the origin."""


class Robots:
    """N robots, by their index in the scene. Construct it before Isaac Sim starts; :meth:`enter` adds them to a world.

    Args:
        robots: Their robot files.

    Raises:
        UserError: A robot has no URDF, or one that Isaac Sim would import incorrectly.
    """

    def __init__(self, robots: Sequence[RobotSpec]) -> None:
        self._robots = tuple(robots)
        flying = [k for k, robot in enumerate(robots) if robot.has_rotors]
        self._column = {k: column for column, k in enumerate(flying)}
        self._flying = np.array(flying, dtype=int)
        self._urdfs = {k: importable_urdf(robot, k) for k, robot in enumerate(robots) if k not in self._column}
        self.jointed: dict[int, ArticulatedRobot] = {}
        self.paths: list[str] = []
        """Path of the prim that contains each robot."""

    def enter(self, world: World5, *, isolated: bool) -> None:
        """Add the robots to the stage of a world and start its physics; check Isaac Sim's behaviour."""
        self._world = world
        places = np.zeros((len(self._robots), 3))
        places[:, 0], places[:, 2] = _APART_M * np.arange(len(places)), _ABOVE_M
        imported: dict[int, ImportedRobot] = {}
        views = {}
        with tempfile.TemporaryDirectory(prefix="rlstack_isaac_") as folder:
            for index, robot in enumerate(self._robots):
                x, y, z = places[index].tolist()
                if robot.has_rotors:
                    flying = cast("Quadrotor", robot)
                    path = stage.author_quadrotor(world.usd, index, flying, (x, y, z), seen=not isolated)
                else:
                    imported[index], views[index] = self._import(Path(folder), index, places[index], seen=not isolated)
                    path = imported[index].path
                self.paths.append(path)
            if imported:
                retire_sources(world.usd)
            if isolated:
                stage.keep_apart(world.usd, self.paths)
            world.play([self.paths[k] for k in self._flying], places[self._flying])
        for index, one in imported.items():
            robot, prefix = self._robots[index], self._urdfs[index].prefix
            self.jointed[index] = ArticulatedRobot(views[index], one, robot, prefix, robot.fixed_base)
            self._check_place(index, places[index])

    def _import(self, folder: Path, index: int, place: Array, *, seen: bool) -> tuple[ImportedRobot, Any]:
        robot, urdf, world = self._robots[index], self._urdfs[index], self._world
        file = folder / f"{urdf.name}.urdf"
        file.write_text(urdf.text, encoding="utf-8")
        root = world.import_urdf(str(file), fixed_base=robot.fixed_base)
        path = root.rsplit("/", 1)[0]
        world.load()
        x, y, z = place.tolist()
        one = settle_imported(world.usd, path, urdf, robot, (x, y, z), fixed=robot.fixed_base, seen=seen)
        return one, world.articulation(root, one.base, one.links)

    def _check_place(self, index: int, place: Array) -> None:
        body = np.zeros(BODY_ROWS)
        body[:3], body[6] = place, 1.0
        self.jointed[index].place(body)
        self.jointed[index].refresh(body)
        if not (np.abs(body[:3] - place) < _NEAR_M).all():
            name = self._robots[index].name
            raise RuntimeError(
                f"Isaac Sim does not place {name} as commanded: it is at {body[:3]}, and not at {place}."
            )

    # ---- all of them

    def refresh(self, rows: Array) -> None:
        """Write the states (13, N) of all robots."""
        if len(self._flying):
            rows[:, self._flying] = convert.rows_from_views(*self._world.states())
        for index, robot in self.jointed.items():
            robot.refresh(rows[:, index])

    def push(self, force: Array, torque: Array, orientation: Array) -> None:
        """Set world forces (3, N) and body torques (3, N) for the next step, given the orientations (4, N)."""
        if len(self._flying):
            at = self._flying
            self._world.push(*convert.wrench_in_world(force[:, at], torque[:, at], orientation[:, at]))
        for index, robot in self.jointed.items():
            if force[:, index].any() or torque[:, index].any():
                at = np.array([index])
                forces, torques = convert.wrench_in_world(force[:, at], torque[:, at], orientation[:, at])
                robot.push(forces[0], torques[0])

    # ---- one of them

    def place(self, index: int, body: Array) -> None:
        """Set one robot's state (13,)."""
        if index in self.jointed:
            self.jointed[index].place(body)
        else:
            self._world.place(self._column[index], *convert.views_from_row(body))

    def set_mass(self, index: int, mass_kg: float, inertia_kg_m2: Array) -> None:
        """Set mass and principal moments (3,) of one robot's body or base link."""
        if index in self.jointed:
            self.jointed[index].set_mass(mass_kg, inertia_kg_m2)
        else:
            self._world.set_mass(self._column[index], mass_kg, inertia_kg_m2)

    def mass_properties(self, index: int) -> MassProperties:
        """Return PhysX's mass properties of one robot, in single precision."""
        if index in self.jointed:
            return self.jointed[index].mass_properties()
        mass, centre, inertia = self._world.mass(self._column[index])
        return MassProperties(mass, np.asarray(centre, dtype=float), np.asarray(inertia, dtype=float))

    def touching(self, index: int) -> bool:
        """Return whether one robot had contact in the last step."""
        if index in self.jointed:
            return self.jointed[index].articulation.contact()
        return bool(self._world.contact()[self._column[index]])
