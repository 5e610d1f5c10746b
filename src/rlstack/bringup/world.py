"""`rlstack world`: inspect and export a world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rlstack.files import write_atomically

_File = Annotated[Path | None, tyro.conf.arg(metavar="FILE")]


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
        from rlstack.sim.world import load_world, world_names
        from rlstack.sim.world_models import to_sdf
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
