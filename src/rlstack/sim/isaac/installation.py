"""Which Isaac Sim is installed here, and whether it is one that this package is written against."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from rlstack.errors import UserError

PYTHON = {5: (3, 11)}
"""The one Python of each supported generation: its wheels are built for no other."""
RELEASES = ("5.0", "5.1")
"""What ``api_5.py`` is written against; 5.1.0 is the one whose sources were read."""
INSTALL = (
    "in an environment of its own with Python 3.11, pip install 'isaacsim[all,extscache]==5.1.0' from NVIDIA's package"
    " index and then 'rlstack[isaac]' (docs/isaac.md)"
)
"""How to get it, as the end of a sentence."""


def installed_version(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the version of Isaac Sim that ``import isaacsim`` would give, such as ``5.1.0``; None without one.

    The pip package has metadata; an unpacked archive has a VERSION file in ISAAC_PATH. ``unknown`` where there is
    neither. Imports nothing.
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


def require_supported(version: str | None, python: tuple[int, int] = sys.version_info[:2]) -> int:
    """Return the generation of the API, 5, of an installed version.

    Args:
        version: What :func:`installed_version` returned.
        python: Of this process.

    Raises:
        UserError: None is installed, or one that no file here is written for, or in a Python that it is not built for.
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
    generation = int(version.split(".")[0])
    if python != PYTHON[generation]:
        wanted, here = (".".join(map(str, p)) for p in (PYTHON[generation], python))
        raise UserError(f"Isaac Sim {version} runs on Python {wanted}, and this is {here}: {INSTALL}.")
    return generation
