"""Names come from a package's modules and from other packages' entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS
from rlstack.registry import Registry


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
