"""What every backend promises, simulated or real."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlstack.interfaces.backend import Backend
from rlstack.interfaces.signals import COMMANDED, SENSED
from rlstack.kinds.quadrotor.spec import Quadrotor


def test_says_what_it_senses_and_takes_before_it_connects(make: Callable[..., Backend], robot: Quadrotor) -> None:
    backend = make()
    assert isinstance(backend, Backend)
    assert backend.robot is robot
    assert set(backend.sensed) <= set(SENSED)
    assert set(backend.commanded) <= set(COMMANDED)
    assert {"position", "orientation", "linear_velocity", "angular_velocity", "linear_acceleration"} <= set(
        backend.sensed
    )
    assert "rotor_speed" in backend.commanded


def test_use_before_connect_is_an_error_that_says_so(make: Callable[..., Backend]) -> None:
    with pytest.raises(RuntimeError, match="connect"):
        make().read()


def test_a_reading_holds_every_sensed_signal_in_its_shape(backend: Backend, robot: Quadrotor) -> None:
    reading = backend.read()
    assert tuple(reading.signals) == backend.sensed
    for name, value in reading.signals.items():
        shape = tuple(len(robot.rotors) if n == "rotors" else n for n in SENSED[name].shape)
        assert value.shape == shape, name
        assert value.dtype == np.float64, name
        assert np.isfinite(value).all(), name
    assert np.linalg.norm(reading.signals["orientation"]) == pytest.approx(1.0, abs=1e-6)


def test_write_returns_what_was_sent_within_the_robots_range(backend: Backend, robot: Quadrotor) -> None:
    low, high = robot.rotor_model.speed_min_rad_s, robot.rotor_model.speed_max_rad_s
    sent = backend.write({"rotor_speed": np.array([-50.0, 0.5 * high, high, 2.0 * high])})
    np.testing.assert_allclose(sent["rotor_speed"], [low, 0.5 * high, high, high])
    backend.disarm()


@pytest.mark.parametrize(
    "command",
    [
        {"rotor_speed": np.array([100.0, np.nan, 100.0, 100.0])},
        {"rotor_speed": np.array([100.0, np.inf, 100.0, 100.0])},
        {"rotor_speed": np.full(3, 100.0)},
        {"rotor_speed": np.full((1, 4), 100.0)},
        {"rotor_speed": ["a", "b", "c", "d"]},
        {"rotor_speed": np.full(4, 100.0), "twist": np.zeros(2)},
        {},
    ],
    ids=["nan", "infinite", "too short", "two axes", "text", "unknown name", "empty"],
)
def test_a_bad_command_is_refused(backend: Backend, command: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError):
        backend.write(command)


def test_close_twice_is_fine_and_use_after_it_an_error_that_says_so(make: Callable[..., Backend]) -> None:
    backend = make()
    backend.connect()
    backend.close()
    backend.close()
    for use in (backend.connect, backend.read, backend.disarm, backend.reset, lambda: backend.step(0.01)):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    with pytest.raises(RuntimeError, match="closed"):
        backend.write({"rotor_speed": np.zeros(4)})


def test_closing_before_connecting_is_fine(make: Callable[..., Backend]) -> None:
    make().close()
