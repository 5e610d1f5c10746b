"""The ``isaac`` backend: Isaac Sim's installation, environment, application, stage and robots.

**Not yet run on Isaac Sim.** Written against the public sources of Isaac Sim 5.1.0 and tested on a stand-in that checks
call order and array shapes (tests/support/isaacsim_standin). Nothing is imported from Isaac Sim before
:func:`rlstack.sim.backends.isaac.application.start` has started it, because its modules do not exist until then.

Each generation of the API has one file: ``api_5.py`` for 5.0 and 5.1. Generation 6 is not supported: it moves the
classes that ``api_5.py`` uses into deprecated extensions and replaces the URDF importer's commands.
"""

from rlstack.sim.backends.isaac.engine import IsaacBackend, IsaacEngine

__all__ = ["BACKEND", "IsaacBackend", "IsaacEngine"]

BACKEND = IsaacBackend
