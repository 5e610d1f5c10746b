"""The plan of the house, held by a test: imports run down the floors, robots need no torch, files stay readable."""

from __future__ import annotations

import ast
import re
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
    **dict.fromkeys(
        (
            "arrays",
            "errors",
            "files",
            "foreign",
            "kinds",
            "libraries",
            "machine",
            "processes",
            "progress",
            "ray_cluster",
            "registry",
            "resources",
            "schema",
            "text_table",
            "yaml_files",
        ),
        0,
    ),
    **dict.fromkeys(("fused", "robots", "interfaces"), 1),
    **dict.fromkeys(("policies", "sim", "hardware", "control", "data", "perception", "view"), 2),
    **dict.fromkeys(("guard", "tasks", "agent"), 3),
    **dict.fromkeys(("verification", "demonstrations", "identification"), 4),
    **dict.fromkeys(("training", "importers"), 5),
    "nodes": 6,
    **dict.fromkeys(("bringup", "environments"), 7),
    **dict.fromkeys(("cli", "completion", "__main__"), 8),
}
"""What is at the top of rlstack, and the floor it is on; on one floor, nothing may need each other in a circle."""

TORCH_FREE = (
    "fused",
    "robots",
    "interfaces",
    "policies",
    "control",
    "guard",
    "hardware",
    "perception",
    "agent",
    "sim.backends",
)
"""What a robot's computer runs, with the nodes of DEPLOYED; none of it may import torch, however indirectly."""

DEPLOYED = tuple(
    f"nodes.{name}"
    for name in (
        *("robot", "policy", "remote_policy", "guard", "planner", "nav2", "map", "people", "odometry"),
        *("teleop", "teleop_arm", "goal_action", "agent"),
    )
)

KIND_FLOORS = {
    "__init__": 0,
    **dict.fromkeys(("spec", "models", "mjcf", "urdf", "signals"), 1),
    "simulation": 2,
    "guard": 3,
    **dict.fromkeys(("identification", "adaptation"), 4),
    "topics": 6,
    **dict.fromkeys(("deployment", "drill", "scaffold", "verification"), 7),
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


def test_the_picture_of_the_architecture_shows_the_packages_and_their_imports(tmp_path: Path) -> None:
    """Where this fails: python tools/draw_architecture."""
    root = SOURCES.parents[1]
    drawn = tmp_path / "architecture.svg"
    subprocess.run([sys.executable, str(root / "tools" / "draw_architecture"), "--out", str(drawn)], check=True)
    shown = [
        set(
            re.findall(r'data-room="\w+"|data-from="\w+" data-to="\w+"|>[a-z]+\.py<|class="size"[^>]*>[a-z_, ]+<', text)
        )
        for text in (drawn.read_text(), (root / "docs" / "images" / "architecture.svg").read_text())
    ]
    assert 'data-room="sim"' in shown[0] and shown[0] == shown[1]


def test_every_part_has_a_floor() -> None:
    assert {part(path).split(".")[0] for path in FILES} - {"__init__"} <= set(FLOORS)
    assert {part(path) for path in FILES} >= {"robots", "policies", "nodes", "cli"}, "the sources were not found"


def test_imports_run_down_the_floors() -> None:
    upward = [
        f"{path.relative_to(SOURCES)}, line {line}: {other}"
        for path in FILES
        for line, other in needed_parts(path)
        if floor_of(other) > floor_of(part(path))
    ]
    assert not upward, f"imports from above: {upward}"


def test_parts_on_one_floor_do_not_need_each_other_in_a_circle() -> None:
    needs: dict[str, set[str]] = {}
    for path in FILES:
        needs.setdefault(part(path), set()).update(other for _, other in needed_parts(path) if other != part(path))

    TopologicalSorter({name: needs[name] for name in needs if name != "__init__"}).prepare()  # CycleError names them


def module_of(path: Path) -> str:
    """Return the name of a module within rlstack."""
    words = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Imports within functions and for type checkers count: they hide a circle, they do not open it."""
    modules = {module_of(path) for path in FILES} - {""}
    needs: dict[str, set[str]] = {name: set() for name in modules}
    for path in FILES:
        for _, name in imports(path):
            while (module := name.removeprefix("rlstack.")) not in modules and "." in name:
                name = name.rpartition(".")[0]
            if module in modules and module != module_of(path):
                needs.setdefault(module_of(path), set()).add(module)
    TopologicalSorter(needs).prepare()  # CycleError names them


CUDA_ARRAYS = ("fused/memory_layout.py", "sim/batch_quadrotor/simulator.py")
"""Where arrays on a CUDA device are made and written; they are torch's, imported only when there is such a device."""


def test_only_what_learns_imports_torch() -> None:
    allowed, learns = [SOURCES / name for name in CUDA_ARRAYS], ("tasks", "training", "importers", "environments")
    for path in (path for path in FILES if part(path) not in learns and path not in allowed):
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


def test_no_file_is_too_long() -> None:
    lines = {str(path.relative_to(SOURCES)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    long = {name: count for name, count in lines.items() if count > MOST_LINES}
    assert not long, f"give these one reason to change and the rest another file: {long}"


KINDS = tuple(path.parent.name for path in SOURCES.glob("kinds/*/spec.py"))
KIND_CLASSES = {
    node.value.id
    for path in SOURCES.glob("kinds/*/spec.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SPEC" and isinstance(node.value, ast.Name)
}
"""The classes that robot files of the kinds are read into."""


def asked_kinds(path: Path) -> list[str]:
    """Return the lines on which a file asks for a kind of robot: by its class, or by its name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = node.args[1:]
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            asked = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        elif isinstance(node, ast.MatchValue):
            asked = [node.value]
        parts = [part for one in asked for part in ast.walk(one)]
        names = {ast.unparse(part).split(".")[-1] for part in parts if isinstance(part, (ast.Name, ast.Attribute))}
        said = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        if names & KIND_CLASSES or said & set(KINDS):
            found.append(f"line {node.lineno}: {sorted((names & KIND_CLASSES) | (said & set(KINDS)))}")
    return found


def test_nothing_outside_kinds_asks_which_kind_a_robot_is_of() -> None:
    asked = {
        str(path.relative_to(SOURCES)): found
        for path in FILES
        if part(path).split(".")[0] != "kinds" and (found := asked_kinds(path))
    }
    assert not asked, f"ask what the robot has (robots/spec.py), or move it to kinds/: {asked}"


def test_what_asks_for_a_kind_is_found(tmp_path: Path) -> None:
    file = tmp_path / "asking.py"
    file.write_text(
        "def f(r, spec):\n    isinstance(r, Quadrotor)\n    isinstance(r, (int, spec.Manipulator))\n"
        "    r.kind in ('wheeled_base',)\n    {'quadrotor': 4}\n    return isinstance(r, int) or r.kind == 'square'\n"
    )
    assert {"Quadrotor", "WheeledBase", "Manipulator"} <= KIND_CLASSES
    assert [line.split(":")[0] for line in asked_kinds(file)] == ["line 2", "line 3", "line 4", "line 5"]
