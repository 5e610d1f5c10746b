"""Isaac Sim, from its Python: the installation, the environment, the application, the stage and what is done with them.

**Not yet run on Isaac Sim.** Written against the public sources of Isaac Sim 5.1.0 and tested on a stand-in that holds
their call order and array shapes (tests/support/isaacsim_standin). Nothing here is imported from Isaac Sim before
:func:`rlstack.sim.backends.isaac.application.start` has started it: its modules do not exist until then.

Each generation of its API has one file: ``api_5.py`` for 5.0 and 5.1. There is none for 6: it moves the classes that
``api_5.py`` uses into its deprecated extensions and replaces the URDF importer's commands.
"""

from rlstack.sim.backends.isaac.engine import IsaacBackend, IsaacEngine

__all__ = ["BACKEND", "IsaacBackend", "IsaacEngine"]

BACKEND = IsaacBackend
