from __future__ import annotations

import numpy as np
import pytest

from rlstack.control.navigation import PLANNERS, Status
from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.pure_pursuit import Line, PurePursuit, PursuitSettings, speed_profile
from rlstack.errors import UserError
from rlstack.robots import frames, load_robot
from tests.control.navigation.floor import burger

CAR = BaseModel.of(load_robot("racecar"))
LIMITS = {"most_m_s": 5.0, "grip_m_s2": 6.0, "acceleration_m_s2": 4.0, "braking_m_s2": 4.0}


def oval(straight: float = 6.0, radius: float = 2.0, step: float = 0.1) -> np.ndarray:
    turn = np.arange(0.0, np.pi, step / radius)
    ahead = np.arange(0.0, straight, step)
    first = np.column_stack((ahead, np.full_like(ahead, -radius)))
    right = np.column_stack((straight + radius * np.sin(turn), -radius * np.cos(turn)))
    back = np.column_stack((straight - ahead, np.full_like(ahead, radius)))
    left = np.column_stack((-radius * np.sin(turn), radius * np.cos(turn)))
    return np.concatenate((first, right, back, left))


def driven(
    driver: PurePursuit, x: float, y: float, yaw: float, seconds: float, signals: dict | None = None
) -> np.ndarray:  # type: ignore[type-arg]
    """Return positions (steps, 2) of a base that does as it is told, 20 times a second."""
    driver.reset(1)
    speed = turning = 0.0
    track = []
    for _ in range(round(20 * seconds)):
        given = {
            "position": np.array([[x, y, 0.0]]),
            "orientation": frames.from_yaw(np.array([yaw])),
            "linear_velocity": np.array([[speed, 0.0, 0.0]]),
            "angular_velocity": np.array([[0.0, 0.0, turning]]),
            **(signals or {}),
        }
        speed, turning = driver.step(given)["twist"][0]
        x, y, yaw = x + 0.05 * speed * np.cos(yaw), y + 0.05 * speed * np.sin(yaw), yaw + 0.05 * turning
        track.append((x, y))
    return np.array(track)


def test_speeds_keep_to_grip_motors_and_brakes() -> None:
    points = oval()
    speed = speed_profile(points, True, **LIMITS)
    step = np.linalg.norm(np.roll(points, -1, axis=0) - points, axis=1)
    change = (np.roll(speed, -1) ** 2 - speed**2) / (2.0 * step)
    assert change.max() < 4.0 + 1e-6 and change.min() > -4.0 - 1e-6
    bend = (points[:, 0] > 6.5) | (points[:, 0] < -0.5)
    assert speed[bend].max() < np.sqrt(6.0 * 2.0) * 1.02
    assert speed.max() > 4.0, "straights are faster than bends"
    assert speed_profile(points[:50], False, **LIMITS)[-1] == 0.0


def test_a_car_laps_an_oval_near_the_line() -> None:
    points = oval()
    line = Line(points, 0.9 * speed_profile(points, True, **LIMITS), closed=True)
    driver = PurePursuit(CAR, PursuitSettings(rate_hz=20.0), (line,))
    track = driven(driver, 1.0, -2.0, 0.0, 20.0)
    off = np.linalg.norm(track[:, None] - points, axis=2).min(axis=1)
    assert off.max() < 0.35
    around = np.unwrap(np.arctan2(track[:, 1], track[:, 0] - 3.0))
    assert around[-1] - around[0] > 2.0 * 2.0 * np.pi, "more than two laps"
    assert driver.status[0] == Status.DRIVING


def test_who_is_far_off_the_path_stops() -> None:
    points = oval()
    driver = PurePursuit(CAR, PursuitSettings(), (Line(points, np.ones(len(points)), closed=True),))
    track = driven(driver, 3.0, -0.5, 0.0, 0.5)
    assert driver.status[0] == Status.STUCK
    assert (track == track[0]).all()


def test_a_path_among_the_signals_is_followed_to_its_end() -> None:
    driver = PLANNERS.load("pure_pursuit")(burger())
    assert {"path_time", "path_position"} <= set(driver.inputs)
    x = np.linspace(0.0, 1.0, 21)
    path = np.column_stack((x, 0.2 * np.sin(3.0 * x), np.zeros(21)))
    signals = {"path_position": path[None], "path_time": np.linspace(0.0, 8.0, 21)[None]}
    track = driven(driver, 0.0, 0.0, -2.5, 25.0, signals)
    assert driver.status[0] == Status.ARRIVED
    assert np.linalg.norm(track[-1] - path[-1, :2]) < 0.1


def test_paths_that_do_not_match_the_robots_are_refused() -> None:
    line = Line(oval(), np.ones(len(oval())))
    driver = PurePursuit(CAR, PursuitSettings(), (line, line))
    with pytest.raises(UserError, match=r"2 paths.*3 robots"):
        driver.reset(3)
