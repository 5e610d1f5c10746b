"""Every backend that is installed, simulators by themselves and hardware only when asked for by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rlstack.errors import UserError
from rlstack.interfaces.backend import BACKENDS, Backend
from rlstack.robots import Quadrotor, load_quadrotor

ALWAYS = ("mujoco",)
"""Backends that `make test` installs: they may not be skipped."""


@pytest.fixture(scope="session")
def robot() -> Quadrotor:
    return load_quadrotor("crazyflie")


@pytest.fixture(params=BACKENDS.names())
def make(request: pytest.FixtureRequest, robot: Quadrotor) -> Iterator[Callable[..., Backend]]:
    """Return a function that makes an unconnected backend; all that it made are closed afterwards.

    A backend whose dependency is missing is skipped. One that does not own time is a real robot: it is only
    tried when RLSTACK_TEST_HARDWARE names it.
    """
    name: str = request.param
    try:
        entry = BACKENDS.load(name)
    except (ImportError, UserError) as error:
        if name in ALWAYS:
            raise
        pytest.skip(f"{name}: {error}")
    if not entry.owns_time and name not in os.environ.get("RLSTACK_TEST_HARDWARE", "").split(","):
        pytest.skip(f"{name} is a real robot: set RLSTACK_TEST_HARDWARE={name} to test it, propellers off")
    made: list[Backend] = []

    def build(**options: Any) -> Backend:
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
