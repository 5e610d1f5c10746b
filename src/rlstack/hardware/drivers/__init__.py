"""Drivers of real robots: one module each, found by name as ``backend``, like a simulator.

A driver is one file, ``<name>.py``, that defines ``BACKEND``: a class that implements
:class:`rlstack.interfaces.backend.Backend` and takes the robot of the robot file. The robot node puts it behind the
common topics, and the guard stands between policy and driver as in simulation.

- ``owns_time = False``, so that time is the system's clock; ``step`` and ``reset`` do nothing.
- ``connect`` opens the link and ``close`` releases it; ``read`` returns the newest measurement without blocking.
- ``write`` sends a command within the robot's limits and returns it; ``disarm`` stops all actuators at once.
- Importing the module needs neither the robot nor its vendor's library: ``connect`` imports that, and raises a
  ``UserError`` that names what to install. torch is not allowed: the module runs on the robot's computer.

``RLSTACK_TEST_HARDWARE=<name> pytest tests/sim/conformance -k <name>`` then tests it on the robot.
"""
