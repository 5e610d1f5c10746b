"""The commands `rlstack model`, `rlstack world` and `rlstack rviz`: options and entry points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


@dataclass(frozen=True)
class Model:
    """Show a robot's mass, inertia and joints; write its URDF or MJCF; or check a model file against the robot file.

    URDF is for RViz, PyBullet and Isaac Sim, MJCF for MuJoCo. A model that differs from its robot file is refused: the
    message names the part, both values and the tolerance.
    """

    robot: tyro.conf.Positional[str]
    """A robot's name or file."""
    format: Literal["urdf", "mjcf"] = "urdf"
    """Format of the model."""
    rotors: Literal["continuous", "fixed", "none"] = "continuous"
    """Rotors in a quadrotor's URDF: rotating links, frames, or visuals only."""
    prefix: str = ""
    """Prefix of the names in a URDF."""
    out: _File = None
    """Output file of the model; default: only check it."""
    check: _File = None
    """A URDF or MJCF (.xml) of this robot to check against its robot file."""

    def run(self) -> int:
        """Check, write and print."""
        from rlstack.robots import load_robot
        from rlstack.robots.model_table import show_model

        options = {name: getattr(self, name) for name in ("rotors", "prefix", "out", "check")}
        print(show_model(load_robot(self.robot), form=self.format, **options))
        return 0


@dataclass(frozen=True)
class World:
    """Describe a world; draw its map; write it for Gazebo. Without a name, list the worlds."""

    name: tyro.conf.Positional[str] = ""
    """Such as warehouse, warehouse:7 for its seed 7, or a world file (.yaml)."""
    map: _File = None
    """Write a map, seen from above, to this file (PNG)."""
    sdf: _File = None
    """Write the world as SDF to this file."""

    def run(self) -> int:
        """Print, draw, write."""
        from rlstack.files import write_atomically
        from rlstack.sim.world import load_world, world_names
        from rlstack.sim.world_export import to_sdf
        from rlstack.verification.world_map import describe_world, draw_world

        if not self.name:
            print("\n".join(world_names()))
            return 0
        world = load_world(self.name)
        print(describe_world(world))
        if self.map is not None:
            write_atomically(self.map.expanduser(), draw_world(world))
        if self.sdf is not None:
            write_atomically(self.sdf.expanduser(), to_sdf(world))
        return 0


@dataclass(frozen=True)
class Rviz:
    """Write an RViz configuration or a Foxglove layout for a robot: its model, frames, sensors, goal, path and world.

    config/rviz and config/foxglove hold those of the robots that ship, with the robot's name as the namespace.
    """

    robot: tyro.conf.Positional[str] = "crazyflie"
    """A robot's name or file."""
    namespace: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Of the robot's topics; left out, it is the robot's name."""
    frame_prefix: str = ""
    """Prefix of its frames, if several robots share a world."""
    foxglove: bool = False
    """Write a layout of Foxglove instead."""
    out: _File = None
    """Output file; default: standard output."""

    def run(self) -> int:
        """Write or print the configuration."""
        from rlstack.bringup.foxglove import foxglove_layout
        from rlstack.bringup.rviz import rviz_config
        from rlstack.files import write_atomically
        from rlstack.robots import load_robot

        written = foxglove_layout if self.foxglove else rviz_config
        text = written(load_robot(self.robot), self.namespace, self.frame_prefix)
        if self.out is None:
            print(text, end="")
        else:
            what = "the Foxglove layout" if self.foxglove else "the RViz configuration"
            write_atomically(self.out, text, what=what)
            print("Import it in Foxglove: Layouts, Import." if self.foxglove else f"Show it with: rviz2 -d {self.out}")
        return 0
