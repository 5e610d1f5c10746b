"""Checks of the installed Isaac Sim version and its environment variables."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from rlstack.errors import UserError

PYTHON = (3, 11)
"""The only Python version with wheels of these releases."""
RELEASES = ("5.0", "5.1")
"""Releases that ``api_5.py`` supports; it was written from the sources of 5.1.0."""
INSTALL = (
    "in an environment of its own with Python 3.11, pip install 'isaacsim[all,extscache]==5.1.0' from NVIDIA's package"
    " index and then 'rlstack[isaac]' (docs/isaac.md)"
)
"""How to install it, as the end of a sentence."""
BRIDGE = "isaacsim.ros2.bridge"
DISTRIBUTIONS = ("humble", "jazzy")
"""ROS 2 releases bundled with the bridge of 5.x."""
MIDDLEWARES = ("rmw_fastrtps_cpp", "rmw_cyclonedds_cpp")
PROBE = "librosidl_runtime_c.so"
"""The library that the bridge loads first; the others are in the same folder."""


def installed_version(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the version of Isaac Sim that ``import isaacsim`` would load, such as ``5.1.0``, or None.

    The pip package has metadata; an unpacked archive has a VERSION file in ISAAC_PATH. Without either, the version is
    ``unknown``. Imports nothing.
    """
    if importlib.util.find_spec("isaacsim") is None:
        return None
    try:
        found = importlib.metadata.version("isaacsim")
    except importlib.metadata.PackageNotFoundError:
        try:
            found = (Path(environ["ISAAC_PATH"]) / "VERSION").read_text(encoding="utf-8")
        except (KeyError, OSError):
            return "unknown"
    number = re.match(r"\d+(\.\d+)*", found.strip())
    return number.group(0) if number else "unknown"


def require_supported(version: str | None, python: tuple[int, int] = sys.version_info[:2]) -> None:
    """Refuse an installed version that is not supported.

    Args:
        version: The version from :func:`installed_version`.
        python: Python version of this process.

    Raises:
        UserError: None is installed, the version is not supported, or the Python version is wrong for it.
    """
    if version is None:
        raise UserError(f"Isaac Sim is not installed: {INSTALL}.")
    if version == "unknown":
        raise UserError(
            "Isaac Sim is installed and its version is not to be found: set ISAAC_PATH to the folder that holds its"
            " VERSION file."
        )
    if ".".join(version.split(".")[:2]) not in RELEASES:
        why = (
            " 6 moves the classes that are used here to its deprecated extensions and replaces the URDF importer."
            if version.startswith("6.")
            else ""
        )
        raise UserError(
            f"Isaac Sim {version} is installed, and rlstack is written for {' and '.join(RELEASES)}.{why}"
            f" To get 5.1.0: {INSTALL}."
        )
    if python != PYTHON:
        wanted, here = (".".join(map(str, p)) for p in (PYTHON, python))
        raise UserError(f"Isaac Sim {version} runs on Python {wanted}, and this is {here}: {INSTALL}.")


def require_environment(
    environ: Mapping[str, str], *, ros_bridge: bool = False, libraries: Path | None = None, interactive: bool = False
) -> None:
    """Check settings that must be made before Isaac Sim starts.

    Args:
        environ: Environment of this process. The loader reads LD_LIBRARY_PATH at process start, so setting it here is
            too late.
        ros_bridge: Whether Isaac Sim's own ROS 2 bridge is wanted. rlstack's nodes do not need it: they talk through
            the rclpy that pip installs.
        libraries: The folder whose ``<distribution>/lib`` holds the bridge's libraries; None searches for it.
        interactive: Whether a user can answer the licence prompt.

    Raises:
        UserError: A variable is missing; the message contains the exports.
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
        # A sourced ROS 2 has it on the path; otherwise the bridge's own copy is used.
        exports.append(f"LD_LIBRARY_PATH=$LD_LIBRARY_PATH:{folder / distribution / 'lib'}")
    return exports


def bridge_folder() -> Path:
    """Return the folder of Isaac Sim's ROS 2 bridge, which may not exist, without importing it."""
    spec = importlib.util.find_spec("isaacsim")
    locations = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(locations[0] if locations else os.environ.get("ISAAC_PATH", "$ISAAC_PATH")) / "exts" / BRIDGE
