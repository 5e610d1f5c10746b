"""Every backend that is installed, simulators by themselves and hardware only when asked for by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Backend
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import RobotSpec
from rlstack.sim.backends.isaac.installation import installed_version
from tests.support.isaacsim_standin.process import standing_in
from tests.support.peers import DRIVERS

ALWAYS = ("mujoco", *(("pybullet",) if sys.version_info < (3, 12) else ()))
"""Backends that `make test` installs: they may not be skipped."""
SINGLE_PRECISION = ("isaac",)
"""Backends whose engine keeps states in float32."""
ONE_AT_A_TIME = ("isaac",)
"""Backends whose engine has one world in a process: a second one is refused until the first is closed."""


@pytest.fixture(scope="session")
def robot() -> Quadrotor:
    # what is promised here is without the floor's effect and the like; those have tests of their own
    return replace(load_quadrotor("crazyflie"), aerodynamics=None)


ASKED_FOR = tuple(filter(None, os.environ.get("RLSTACK_TEST_HARDWARE", "").split(",")))
"""Drivers of real robots that are connected; tests/hardware/conformance runs drivers against their peers."""
TRIED = [name for name in BACKENDS.names() if name not in DRIVERS or name in ASKED_FOR]


@pytest.fixture(params=TRIED)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Yield each backend's name; where there is no Isaac Sim, the stand-in takes its place."""
    if request.param == "isaac" and installed_version() is None:
        with standing_in(monkeypatch, tmp_path):
            yield request.param
    else:
        yield request.param


@pytest.fixture
def make_of(name: str) -> Iterator[Callable[..., Backend]]:
    """Return a function that makes an unconnected backend of a robot; all that it made are closed afterwards.

    A backend whose dependency is missing is skipped. One that does not own time is a real robot: it is only
    tried when RLSTACK_TEST_HARDWARE names it.
    """
    try:
        entry = BACKENDS.load(name)
    except (ImportError, UserError) as error:
        if name in ALWAYS:
            raise
        pytest.skip(f"{name}: {error}")
    if not entry.owns_time and name not in ASKED_FOR:  # of another package
        pytest.skip(f"{name} is a real robot: set RLSTACK_TEST_HARDWARE={name} to test it, propellers off")
    made: list[Backend] = []

    def build(robot: RobotSpec, **options: Any) -> Backend:
        try:
            made.append(entry(robot, **options))
        except UserError as error:
            if name in ALWAYS:
                raise
            pytest.skip(f"{name}: {error}")
        return made[-1]

    yield build
    for backend in made:
        backend.close()


@pytest.fixture
def make(make_of: Callable[..., Backend], robot: Quadrotor) -> Callable[..., Backend]:
    """Return a function that makes an unconnected backend of the quadrotor."""
    return lambda **options: make_of(robot, **options)


@pytest.fixture
def exactness(name: str) -> float:
    """Return the relative error, or the absolute one of numbers about 1, that a backend's arithmetic allows."""
    return 1e-5 if name in SINGLE_PRECISION else 1e-9


@pytest.fixture
def one_at_a_time(name: str) -> bool:
    """Return whether a second one cannot be connected beside a first."""
    return name in ONE_AT_A_TIME


@pytest.fixture
def backend(make: Callable[..., Backend]) -> Backend:
    """Return a connected backend."""
    built = make()
    built.connect()
    return built


@pytest.fixture
def simulator(backend: Backend) -> Any:
    """Return a connected backend that owns time; others skip the test."""
    if not backend.owns_time:
        pytest.skip("only for simulators")
    return backend
