"""Calm flights: without noise and disturbances, from rest at the goal and away from it; how well a policy holds still.

Success does not show a heading that is off, commands in a limit cycle, or a flight at the guard's limits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.kind_signals import command_of, command_range
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.robots.sensing import Sensor
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_outcome import judge_window
from rlstack.verification.scores import Figure, median, percentile
from rlstack.verification.trial_records import FlightRecord

AT_GOAL, AWAY = "at the goal", "from 1.5 m away"
"""Labels of calm flights."""

AWAY_M, FLIGHTS = 1.5, 40
"""Distance of the starts away from the goal, m, and number of calm flights, half of each label."""

WATCHED_S = 4.0
"""The last part of a flight, in which commands are watched, s."""

STILL = 1e-3
"""Share of the range below which commands have no frequency."""


def calm_flights(robot: Quadrotor) -> Scenario:
    """Return flights from rest, level, at the goal's heading: at the goal, and in directions all around it."""
    half = FLIGHTS // 2
    # Fibonacci directions, even over the sphere
    z = 1.0 - (2.0 * np.arange(half) + 1.0) / half
    angle, radius = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(half), np.sqrt(1.0 - z * z)
    around = AWAY_M * np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)
    rotors = len(robot.rotors)
    state = {
        "position": np.concatenate([np.zeros((half, 3)), around]),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (FLIGHTS, 1)),
        "linear_velocity": np.zeros((FLIGHTS, 3)),
        "angular_velocity": np.zeros((FLIGHTS, 3)),
        "rotor_speed": np.full((FLIGHTS, rotors), robot.hover_speed_rad_s),
    }
    labels = np.array([AT_GOAL] * half + [AWAY] * half)
    return Scenario(state, np.zeros((FLIGHTS, 3)), np.zeros(FLIGHTS), Perturbation.none(FLIGHTS, rotors), labels)


def quiet(robot: Quadrotor) -> Quadrotor:
    """Return the robot with a perfect odometry."""
    return replace(robot, sensors={**robot.sensors, "odom": Sensor(rate_hz=robot.control_rate_hz)})


def is_calm(record: FlightRecord) -> bool:
    """Return whether a record is of calm flights."""
    return bool(np.isin(record.labels, (AT_GOAL, AWAY)).all())


def quality_figures(record: FlightRecord, robot: Quadrotor, criteria: SuccessCriteria) -> tuple[Figure, ...]:
    """Return the further figures of calm flights; flights that are not finite are left out."""
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(record.position).all(axis=(0, 2)))
    here, away = record.take(finite & (record.labels == AT_GOAL)), record.take(finite & (record.labels == AWAY))
    both, limits, window = record.take(finite), robot.limits, judge_window(record, criteria)
    deviation, swing, hz = _oscillation(here, robot)
    heading = np.abs(frames.yaw(both.orientation[window])).mean(axis=0)
    turned = (
        ("speed_limit_share", "speed", np.linalg.norm(both.linear_velocity, axis=-1), limits.linear_velocity_m_s),
        ("tilt_limit_share", "tilt", frames.tilt(both.orientation), limits.tilt_rad),
        (
            "rate_limit_share",
            "angular rate",
            np.linalg.norm(both.angular_velocity, axis=-1),
            limits.angular_velocity_rad_s,
        ),
    )
    return (
        Figure(
            "heading_error_rad",
            "Heading error",
            "rad",
            f"Median over the flights of the mean error of yaw from second {criteria.from_s:g} to {criteria.to_s:g}.",
            median(heading),
        ),
        Figure(
            "oscillation_share",
            "Command oscillation",
            "share",
            f"Of the flights that start at the goal, the standard deviation of each rotor's command (or rate, or"
            f" thrust) over the last {WATCHED_S:g} s over its range; mean over these, median over the flights.",
            median(deviation),
        ),
        Figure(
            "swing_share",
            "Command swing",
            "share",
            "Likewise the distance between the lowest and the highest command; that with the largest.",
            median(swing),
        ),
        Figure(
            "oscillation_hz",
            "Its frequency",
            "Hz",
            f"The strongest frequency of that command, median; not measured below {100 * STILL:g}% of the range.",
            median(hz[swing > STILL]),
        ),
        Figure(
            "smoothness_share",
            "Command roughness",
            "share",
            "Mean absolute second difference of commands between control periods over the range, flights at the goal.",
            None if not len(here) else float(np.abs(np.diff(_commands(here, robot), 2, axis=0)).mean()),
        ),
        Figure(
            "overshoot_share",
            "Overshoot",
            "share",
            "Of the flights that start away from the goal, the largest distance beyond it along the way there, over"
            " the distance at the start; 95th percentile.",
            percentile(_overshoot(away), 95) if len(away) else None,
        ),
        *(
            Figure(
                key,
                f"Greatest {name}, of the guard's limit",
                "share",
                f"Largest {name} in any of the flights over the limit in the robot file.",
                float((values / limit).max()) if values.size else None,
            )
            for key, name, values, limit in turned
        ),
    )


def _commands(record: FlightRecord, robot: Quadrotor) -> Array:
    """Return the watched commands (T, N, rotors) as shares of the range."""
    low, high = map(np.array, command_range(robot, command_of(robot).name))
    watched = record.command[-round(WATCHED_S * record.rate_hz) :]
    return (np.clip(watched, low, high) - low) / (high - low)


def _oscillation(record: FlightRecord, robot: Quadrotor) -> tuple[Array, Array, Array]:
    """Return (N,) each: deviation and largest swing of commands, shares of the range; the latter's frequency, Hz."""
    commands = _commands(record, robot)
    swings = np.ptp(commands, axis=0)
    worst = swings.argmax(axis=1)
    one = np.take_along_axis(commands, worst[None, :, None], axis=2)[..., 0]
    power = np.abs(np.fft.rfft(one - one.mean(axis=0), axis=0))
    hz = np.fft.rfftfreq(len(one), 1.0 / record.rate_hz)
    return commands.std(axis=0).mean(axis=1), swings.max(axis=1), hz[power.argmax(axis=0)]


def _overshoot(record: FlightRecord) -> Array:
    """Return (N,) how far each flight passes its goal, as a share of the distance at the start."""
    offset = record.position - record.goal_position
    start = offset[0]
    along = (offset * start).sum(axis=-1) / (start * start).sum(axis=-1)  # 1 at the start, 0 at the goal
    return np.maximum(-along.min(axis=0), 0.0)
