from dataclasses import replace

import numpy as np
import pytest

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.robots import frames
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.tasks.catalog.quadrotor_rates import RatesTask
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.flight_quality import (
    AT_GOAL,
    AWAY,
    AWAY_M,
    FLIGHTS,
    calm_flights,
    is_calm,
    quality_figures,
    quiet,
)
from rlstack.verification.flight_score import score_flights
from rlstack.verification.judgement import judge
from rlstack.verification.trial_records import FlightRecord

ROBOT = load_quadrotor("crazyflie")
TOP = ROBOT.rotor_model.speed_max_rad_s


def record(**changes):
    time, labels = np.arange(801) / 100.0, np.array([AT_GOAL, AT_GOAL, AWAY])
    arrays = {
        "position": np.zeros((801, 3, 3)),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (801, 3, 1)),
        "linear_velocity": np.zeros((801, 3, 3)),
        "angular_velocity": np.zeros((801, 3, 3)),
        "command": np.full((801, 3, 4), 0.5 * TOP),
        "goal_position": np.zeros((801, 3, 3)),
    }
    arrays["position"][:, 2, 0] = 1.5 * np.exp(-time)
    return FlightRecord(**{"simulator": "batch", "rate_hz": 100.0, "labels": labels, **arrays, **changes})


def measured(**changes):
    return {figure.key: figure.value for figure in quality_figures(record(**changes), ROBOT, SuccessCriteria())}


def test_a_flight_that_holds_still_has_no_errors():
    figures = measured()
    assert figures["heading_error_rad"] == figures["oscillation_share"] == figures["smoothness_share"] == 0.0
    assert figures["oscillation_hz"] is None and figures["overshoot_share"] == 0.0


def test_the_worst_rotors_swing_and_frequency_are_found():
    command = np.full((801, 3, 4), 0.5 * TOP)
    command[:, :2, 2] += 0.05 * TOP * np.sin(2.0 * np.pi * 5.0 * np.arange(801) / 100.0)[:, None]
    figures = measured(command=command)
    assert figures["swing_share"] == pytest.approx(0.1, rel=0.01)
    assert figures["oscillation_share"] == pytest.approx(0.05 / np.sqrt(2.0) / 4.0, rel=0.01)  # one rotor of four
    assert figures["oscillation_hz"] == pytest.approx(5.0)


def test_heading_overshoot_and_limits_are_shares_of_what_they_should_be():
    position = np.zeros((801, 3, 3))
    position[:, 2, 0] = 1.5 * np.cos(np.linspace(0.0, np.pi, 801))
    velocity = np.zeros((801, 3, 3))
    velocity[40, 2, 1] = 0.5 * ROBOT.limits.linear_velocity_m_s
    turned = np.tile(frames.from_yaw(-0.2), (801, 3, 1))
    figures = measured(position=position, linear_velocity=velocity, orientation=turned)
    assert figures["overshoot_share"] == pytest.approx(1.0) and figures["speed_limit_share"] == pytest.approx(0.5)
    assert figures["heading_error_rad"] == pytest.approx(0.2)


@pytest.mark.parametrize("task", [HoverTask, RatesTask])
def test_a_policy_that_is_more_than_a_degree_off_its_heading_in_calm_flights_is_not_passed(task):
    def why(yaw_rad):
        flown = record(orientation=np.tile(frames.from_yaw(yaw_rad), (801, 3, 1)))
        score = score_flights(flown, task.criteria)
        figures = (*score.figures, *quality_figures(flown, ROBOT, task.criteria))
        return [each for each in judge(replace(score, figures=figures), task.bounds_calm) if "Heading" in each]

    assert why(0.01) == [] and "Heading error" in why(0.02)[0]


def test_flights_that_diverge_are_left_out():
    position = record().position
    position[500:, :2] = np.nan
    figures = measured(position=position)
    assert figures["oscillation_share"] is None and figures["heading_error_rad"] == 0.0


def test_calm_flights_start_at_rest_at_the_goal_and_around_it_with_perfect_odometry():
    flights = calm_flights(ROBOT)
    distance = np.linalg.norm(flights.state["position"] - flights.goal_position, axis=1)
    np.testing.assert_allclose(np.sort(distance), [0.0] * (FLIGHTS // 2) + [AWAY_M] * (FLIGHTS // 2))
    assert np.linalg.norm(flights.state["position"].mean(axis=0)) < 0.05
    assert quiet(ROBOT).sensors["odom"].position_noise_m == 0.0 < ROBOT.sensors["odom"].position_noise_m
    assert is_calm(record()) and not is_calm(record(labels=np.array(["task", AT_GOAL, AWAY])))
