"""What must be in the environment before Isaac Sim starts, and what to export where it is not."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from rlstack.errors import UserError

BRIDGE = "isaacsim.ros2.bridge"
DISTRIBUTIONS = ("humble", "jazzy")
"""The ROS 2 releases whose libraries the bridge of 5.x brings."""
MIDDLEWARES = ("rmw_fastrtps_cpp", "rmw_cyclonedds_cpp")
PROBE = "librosidl_runtime_c.so"
"""The library that the bridge looks for first; where it is, the others are."""


def require_environment(
    environ: Mapping[str, str], *, ros_bridge: bool = False, libraries: Path | None = None, interactive: bool = False
) -> None:
    """Check what cannot be changed any more once Isaac Sim runs.

    Args:
        environ: Of this process. The loader reads LD_LIBRARY_PATH when a process begins, so setting it here is too
            late.
        ros_bridge: Whether Isaac Sim's own ROS 2 bridge is wanted. rlstack's nodes do not need it: they talk through
            the rclpy that pip installs.
        libraries: The folder whose ``<distribution>/lib`` holds the bridge's libraries; None: looked for.
        interactive: Somebody can answer the question for the licence.

    Raises:
        UserError: Something is missing; with the lines to export.
    """
    exports: list[str] = []
    if environ.get("OMNI_KIT_ACCEPT_EULA", "").lower() not in ("y", "yes", "1") and not interactive:
        exports.append("OMNI_KIT_ACCEPT_EULA=YES")
    if ros_bridge:
        exports += _bridge_exports(environ, libraries or bridge_folder())
    if exports:
        about = " (the first says that you accept NVIDIA's licence)" if "EULA" in exports[0] else ""
        raise UserError(
            f"Isaac Sim needs its environment set before the process starts{about}; in the shell, before the same"
            f" command again: export {' '.join(exports)}"
        )


def _bridge_exports(environ: Mapping[str, str], folder: Path) -> list[str]:
    exports = []
    distribution = environ.get("ROS_DISTRO", "")
    if distribution not in DISTRIBUTIONS:
        distribution = "jazzy"
        exports.append(f"ROS_DISTRO={distribution}")
    if environ.get("RMW_IMPLEMENTATION") not in MIDDLEWARES:
        exports.append(f"RMW_IMPLEMENTATION={MIDDLEWARES[0]}")
    paths = [Path(p) for p in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if p]
    if not any((path / PROBE).is_file() for path in paths):
        # A sourced ROS 2 would have it on the path; without one, the bridge's own copy serves.
        exports.append(f"LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{folder / distribution / 'lib'}")
    return exports


def bridge_folder() -> Path:
    """Return the folder of Isaac Sim's ROS 2 bridge, whether or not it exists; imports nothing."""
    spec = importlib.util.find_spec("isaacsim")
    locations = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(locations[0] if locations else os.environ.get("ISAAC_PATH", "$ISAAC_PATH")) / "exts" / BRIDGE
