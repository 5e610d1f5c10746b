"""Names come from a package's modules and from other packages' entry points."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rlstack.bringup.robot_group import is_simulator
from rlstack.errors import UserError
from rlstack.hardware import drivers
from rlstack.interfaces.backend import BACKENDS, Backend
from rlstack.nodes.robot_backends import make_backends
from rlstack.registry import Registry

PARAMETERS: dict[str, object] = {
    **{"robot": "turtlebot3", "count": 1, "robots": [], "world": "", "physics_rate_hz": 0.0, "gyroscopic": False},
    **{"start_positions_m": [], "noise_seed": 0, "robot_sha256": "", "uri": ""},
}
"""Of a robot node, as far as they concern its backends."""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Return a registry over a real package with two modules, and an installed package that adds a third."""
    package = tmp_path / "shapes_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "circle.py").write_text("SHAPE = 'a circle'\n")
    (package / "square.py").write_text("raise ImportError('squares need a ruler')\n")
    (package / "_helper.py").write_text("")
    (tmp_path / "third_party_of_a_test.py").write_text("TRIANGLE = 'a triangle'\n")
    info = tmp_path / "third_party_of_a_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-of-a-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[shapes.of.a.test]\ntriangle = third_party_of_a_test:TRIANGLE\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry("shape", "shapes_of_a_test", "SHAPE", "shapes.of.a.test")
    for name in [n for n in sys.modules if "_of_a_test" in n]:
        del sys.modules[name]


def test_names_are_modules_and_entry_points_and_importing_none_of_them(registry: Registry) -> None:
    assert registry.names() == ["circle", "square", "triangle"]
    assert "shapes_of_a_test.circle" not in sys.modules


def test_modules_and_entry_points_load(registry: Registry) -> None:
    assert registry.load("circle") == "a circle"
    assert registry.load("triangle") == "a triangle"


def test_an_unknown_name_lists_the_nearest(registry: Registry) -> None:
    with pytest.raises(UserError, match=r"^Unknown shape 'circel'. Nearest: circle. Known: circle, square, triangle.$"):
        registry.load("circel")
    with pytest.raises(UserError, match="Unknown shape '_helper'"):
        registry.load("_helper")


def test_a_missing_dependency_is_not_called_an_unknown_name(registry: Registry) -> None:
    with pytest.raises(ImportError, match="squares need a ruler"):
        registry.load("square")


def test_mujoco_is_a_backend_and_a_near_miss_is_told() -> None:
    assert "mujoco" in BACKENDS.names()
    with pytest.raises(UserError, match=r"Unknown backend 'mojoco'. Nearest: mujoco"):
        BACKENDS.load("mojoco")


DRIVER = """
from rlstack.interfaces.backend import Reading


class Rover:
    owns_time = False
    sensed, commanded, captured = ("position",), ("twist",), ()

    def __init__(self, robot):
        self.robot = robot

    def connect(self): ...
    def read(self):
        return Reading(0.0, {})

    def capture(self, name): ...
    def write(self, command):
        return command

    def step(self, duration_s): ...
    def reset(self, state=None): ...
    def disarm(self): ...
    def let_go(self): ...
    def close(self): ...


BACKEND = Rover
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a driver in a folder that counts as ``rlstack.hardware.drivers``, too."""
    name = "rover_of_a_test"
    (tmp_path / f"{name}.py").write_text(DRIVER)
    monkeypatch.setattr(drivers, "__path__", [*drivers.__path__, str(tmp_path)])
    yield name
    sys.modules.pop(f"rlstack.hardware.drivers.{name}", None)


def test_a_driver_is_found_by_name_like_a_simulator(driver: str) -> None:
    assert {driver, "mujoco", "pybullet", "isaac"} <= set(BACKENDS.names())
    with pytest.raises(UserError, match=rf"Nearest: {driver}\. Known: .*mujoco.*{driver}"):
        BACKENDS.load("rover_of_a_tset")
    assert not is_simulator(driver)
    (backend,) = make_backends({**PARAMETERS, "backend": driver}).values()
    assert isinstance(backend, Backend) and backend.robot.name == "turtlebot3_burger"
    with pytest.raises(UserError, match="physics_rate_hz: the backend 'rover_of_a_test' does not support"):
        make_backends({**PARAMETERS, "backend": driver, "physics_rate_hz": 500.0})


def test_no_driver_has_a_simulators_name() -> None:
    packages = (importlib.import_module(package) for package in (BACKENDS.package, BACKENDS.second_package))
    names = [module.name for package in packages for module in pkgutil.iter_modules(package.__path__)]
    assert len(set(names)) == len(names)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: Registry) -> Iterator[Registry]:
    """Return the registry, whose entries may be files, too; what is imported is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield replace(registry, files=True)
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_file_of_ones_own_is_an_entry(files: Registry, tmp_path: Path) -> None:
    mine = write(tmp_path / "mine" / "my_hexagon_of_a_test.py", "SHAPE = ['a hexagon']\n")
    assert files.load(mine) == ["a hexagon"]
    assert files.load(mine) is files.load(mine)
    assert importlib.import_module("my_hexagon_of_a_test").SHAPE is files.load(mine)


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("none_of_a_test.py", None, "There is no shape .*none_of_a_test.py: the file is not there"),
        ("fails_of_a_test.py", "x = 1\nraise ValueError('seven')\n", "cannot be imported: ValueError: seven .*line 2"),
        ("bare_of_a_test.py", "x = 1\n", "is no shape: it does not define SHAPE, such as SHAPE = MyShape"),
        ("json.py", "SHAPE = 1\n", "another module is called json. Rename the file"),
    ],
)
def test_files_that_are_none_are_refused(
    files: Registry, tmp_path: Path, name: str, text: str | None, refusal: str
) -> None:
    path = tmp_path / "mine" / name
    if text is not None:
        write(path, text)
    with pytest.raises(UserError, match=refusal):
        files.load(str(path))


def test_who_misses_a_name_hears_of_files(files: Registry, registry: Registry) -> None:
    with pytest.raises(UserError, match=r"Unknown shape 'cirkle'. Nearest: circle.*Or give a file of your own"):
        files.load("cirkle")
    with pytest.raises(UserError, match=r"Unknown shape 'x.py'"):
        registry.load("x.py")
