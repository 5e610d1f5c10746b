"""A stand-in for Isaac Sim 5.1, for tests where Isaac Sim cannot run. It is not Isaac Sim and proves nothing about it.

What it is: modules named like those that ``rlstack.sim.isaac.api_5`` calls (``isaacsim``, ``isaacsim.core...``,
``isaacsim.sensors.camera``, ``omni.physx``, ``omni.kit.commands``), written from the signatures, call order, array
shapes and conventions in the public sources of Isaac Sim 5.1.0. It

- records every call (:attr:`Kit.calls`);
- refuses what the real one breaks on, and also what the real one lets pass with a warning or silently does wrong:
  importing before SimulationApp, a second World, views before ``reset()`` or after ``stop()``, gains before
  ``reset()``, camera pictures before a rendered step, any call after the end, wrong shapes and types, unknown keywords;
- reads the bodies and shapes from the USD stage, which is the real ``pxr`` of the package usd-core, so a wrong mass,
  axis, unit or schema name in the stage gives wrong physics here too;
- integrates free rigid bodies as PhysX documents it: semi-implicit Euler, the explicit gyroscopic term that keeps the
  angular momentum's length, states in single precision; points on shapes press on other shapes.

What it cannot show: that Isaac Sim starts, loads, renders or imports anything; PhysX's contact (this one is a few
impulses on a few points), its solver, its order of bodies, its speed; what the renderer returns; whether a documented
call really behaves as documented. Joints here are independent of each other and of the body, with an inertia of 1.
"""

from tests.support.isaacsim_standin.installing import installed
from tests.support.isaacsim_standin.kit import Call, Kit, MisuseError

__all__ = ["Call", "Kit", "MisuseError", "installed"]
