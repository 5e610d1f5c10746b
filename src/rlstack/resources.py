"""Find the data files that ship with the package: recipes, worlds, robot folders, launch files."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def share_directories() -> list[Path]:
    """Return the folders that may hold rlstack's data, the most specific first.

    A source checkout (and an editable install) has them at its root; ``pip install`` and ``colcon build``
    put them in ``share/rlstack`` of their prefix.
    """
    here = Path(__file__).resolve()
    candidates = []
    if override := os.environ.get("RLSTACK_SHARE"):
        candidates.append(Path(override))
    checkout = here.parents[2]
    if (checkout / "package.xml").is_file() and (checkout / "src" / "rlstack").is_dir():
        candidates.append(checkout)
    candidates += [parent / "share" / "rlstack" for parent in here.parents]
    candidates.append(Path(sys.prefix) / "share" / "rlstack")
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    candidates += [Path(p) / "share" / "rlstack" for p in prefixes if p]
    return [path for path in dict.fromkeys(candidates) if path.is_dir()]


def find_resource(relative: str) -> Path | None:
    """Return the first existing ``relative`` path under the share directories, or None."""
    for directory in share_directories():
        if (directory / relative).exists():
            return directory / relative
    return None


def list_resources(folder: str, suffix: str) -> dict[str, Path]:
    """Return ``{stem: path}`` of the files in ``folder`` that end in ``suffix``."""
    found: dict[str, Path] = {}
    for directory in share_directories():
        for path in sorted((directory / folder).glob(f"*{suffix}")):
            found.setdefault(path.name.removesuffix(suffix), path)
    return found
