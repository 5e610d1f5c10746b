"""The plan of the house, held by a test: imports run down the floors, robots need no torch, files stay readable."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "src" / "rlstack"
FILES = sorted(SOURCES.rglob("*.py"))

FLOORS = {
    **dict.fromkeys(("arrays", "errors", "files", "kinds", "processes", "registry", "resources", "schema"), 0),
    **dict.fromkeys(("fused", "robots", "interfaces"), 1),
    **dict.fromkeys(("policies", "sim", "hardware", "control", "data", "perception"), 2),
    **dict.fromkeys(("guard", "tasks"), 3),
    **dict.fromkeys(("verification", "demonstrations"), 4),
    "training": 5,
    "nodes": 6,
    **dict.fromkeys(("bringup", "environments"), 7),
    **dict.fromkeys(("cli", "__main__"), 8),
}
"""What is at the top of rlstack, and the floor it is on; on one floor, nothing may need each other in a circle."""

TORCH_FREE = ("fused", "robots", "interfaces", "policies", "control", "guard", "hardware", "perception", "sim.backends")
"""What a robot's computer runs, with the nodes of DEPLOYED; none of it may import torch, however indirectly."""

DEPLOYED = tuple(
    f"nodes.{name}" for name in ("robot", "policy", "guard", "planner", "nav2", "map", "people", "teleop", "teleop_arm")
)

KIND_FLOORS = {
    "__init__": 0,
    **dict.fromkeys(("spec", "models", "mjcf", "urdf", "signals"), 1),
    "simulation": 2,
    "guard": 3,
    "topics": 6,
    **dict.fromkeys(("deployment", "verification"), 7),
}
"""Floors within a folder of ``kinds``, by the first word of a file's name: ``guard_config`` is on that of ``guard``."""

MOST_LINES = 450


def part(path: Path) -> str:
    """Return the package or module at the top of rlstack that ``path`` belongs to."""
    return part_of(".".join(path.relative_to(SOURCES).with_suffix("").parts))


def part_of(name: str) -> str:
    """Return the same of a module's name within rlstack; in ``kinds`` each file is a part of its own."""
    words = name.split(".")
    if words[0] != "kinds":
        return words[0]
    return ".".join(words[:3]) if len(words) > 2 else "kinds"


def floor_of(name: str) -> int:
    """Return the floor that a part is on."""
    if name.startswith("kinds."):
        return KIND_FLOORS[name.split(".")[2].split("_")[0] or "__init__"]
    return FLOORS.get(name, 0)


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Return line and full name of everything that a file imports, wherever in it the import stands."""
    package = ("rlstack", *path.relative_to(SOURCES).parent.parts)
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (above, node.module)))
            found += ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
    return found


def needed_parts(path: Path) -> Iterator[tuple[int, str]]:
    for line, name in imports(path):
        first, _, rest = name.partition(".")
        if first == "rlstack" and rest and rest != "__version__":
            yield line, part_of(rest)


def test_every_part_has_a_floor() -> None:
    assert {part(path).split(".")[0] for path in FILES} - {"__init__"} <= set(FLOORS)
    assert {part(path) for path in FILES} >= {"robots", "policies", "nodes", "cli"}, "the sources were not found"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_imports_run_down_the_floors(path: Path) -> None:
    here = part(path)
    floor = floor_of(here)
    upward = [f"line {line}: {other}" for line, other in needed_parts(path) if floor_of(other) > floor]
    assert not upward, f"{here} is on floor {floor} and imports from above: {upward}"


def test_parts_on_one_floor_do_not_need_each_other_in_a_circle() -> None:
    needs: dict[str, set[str]] = {}
    for path in FILES:
        needs.setdefault(part(path), set()).update(other for _, other in needed_parts(path) if other != part(path))

    TopologicalSorter({name: needs[name] for name in needs if name != "__init__"}).prepare()  # CycleError names them


CUDA_ARRAYS = ("fused/rows.py", "sim/batch/simulator.py")
"""Where arrays on a CUDA device are made and written; they are torch's, imported only when there is such a device."""


def test_only_tasks_and_training_import_torch() -> None:
    allowed = [SOURCES / name for name in CUDA_ARRAYS]
    for path in (path for path in FILES if part(path) not in ("tasks", "training") and path not in allowed):
        found = [f"line {line}: {name}" for line, name in imports(path) if name.split(".")[0] == "torch"]
        assert not found, f"{path} imports torch: {found}"


WITHOUT_TORCH = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "tensordict", "rsl_rl"):
            raise AssertionError(f"{name} was imported")

sys.meta_path.insert(0, Refuse())
for name in sys.argv[1:]:
    module = importlib.import_module(f"rlstack.{name}")
    for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"rlstack.{name}."):
        importlib.import_module(found.name)
        print(found.name)
"""


@pytest.mark.integration
def test_what_a_robot_runs_imports_where_torch_cannot_be() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *TORCH_FREE, *DEPLOYED], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "rlstack.policies.contract" in done.stdout


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_file_is_too_long(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{lines} lines: give it one reason to change and the rest another file"
