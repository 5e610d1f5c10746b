"""A stand-in for Isaac Sim 5.1, for tests where Isaac Sim cannot run. It is not Isaac Sim and proves nothing about it.

What it is: modules named like those that ``api_5`` of the backend calls (``isaacsim``, ``isaacsim.core...``,
``isaacsim.sensors.camera``, ``omni.physx``, ``omni.kit.commands``), written from the signatures, call order, array
shapes and conventions in the public sources of Isaac Sim 5.1.0. It

- records every call (:attr:`Kit.calls`);
- refuses what the real one breaks on, and also what the real one lets pass with a warning or silently does wrong:
  importing before SimulationApp, a second World, views before ``reset()`` or after ``stop()``, gains before
  ``reset()``, camera pictures before a rendered step, any call after the end, wrong shapes and types, unknown keywords;
- reads the bodies and shapes from the USD stage, which is the real ``pxr`` of the package usd-core, so a wrong mass,
  axis, unit or schema name in the stage gives wrong physics here too;
- imports URDFs to the prims, paths, references and defaults that the importer's sources name, with what they do harm;
- has the joints of an articulation in an order that is not the file's;
- integrates free rigid bodies as PhysX documents it: semi-implicit Euler, the explicit gyroscopic term that keeps the
  angular momentum's length, states in single precision; points on shapes press on other shapes.

The motion of articulations is **made up** (``articulations.py``): joints follow their drives' law, each on an inertia
of its own, and a base rolls as its wheels turn, without slip. It shows that commands and states go to the right joint,
in the right unit and frame, and nothing of how a robot would move.

What it cannot show: that Isaac Sim starts, loads, renders or imports anything; PhysX's contact (this one is a few
impulses on a few points), its articulations, its solver, its order of bodies, its speed; what the renderer returns;
whether a documented call really behaves as documented.
"""

from tests.support.isaacsim_standin.installing import installed
from tests.support.isaacsim_standin.kit import Call, Kit, MisuseError

__all__ = ["Call", "Kit", "MisuseError", "installed"]
