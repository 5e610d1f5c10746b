"""Copies of the checkout for tests that build it: building there leaves nothing in the real one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_LEFT_OUT = (
    "__pycache__",
    "*.egg-info",
    "runs",
    "build",
    "install",
    "log",
    "dist",
    "tests",
    "docs",
    "benchmarks",
    ".*",
)

WHERE = """
import json
import rlstack
from rlstack.resources import find_resource, list_resources
from rlstack.kinds.quadrotor.spec import load_quadrotor
found = {name: str(find_resource(name)) for name in ("launch/deploy.launch.py", "config/fastdds.xml", "package.xml")}
print(json.dumps({"module": rlstack.__file__, "robot": load_quadrotor("crazyflie").name,
                  "recipes": sorted(list_resources("policies", ".yaml")), **found}))
"""
"""Prints where a Python finds rlstack and what ships beside it."""


def copy_of_checkout(folder: Path) -> Path:
    """Copy what the package is built of to ``folder``, which must not exist, and return it."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    return folder


def bare_environment() -> dict[str, str]:
    """Return this environment without what points at an rlstack or at a ROS workspace."""
    gone = ("RLSTACK_SHARE", "AMENT_PREFIX_PATH", "COLCON_PREFIX_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in gone}
