"""Tests of the departures of the reality grid of bases."""

from __future__ import annotations

import numpy as np
import pytest

from rlstack.kinds.wheeled_base.verification_crowd import CROWDNAV, course_of
from rlstack.kinds.wheeled_base.verification_departures import (
    BlindZone,
    FieldOfView,
    OdometryDrift,
    OdometryScale,
    ScanDropouts,
    TurnedLidar,
)
from rlstack.kinds.wheeled_base.verification_reality import crowd_axes, navigation_axes
from rlstack.robots import load_robot
from rlstack.robots.frames import from_yaw
from rlstack.sim.batch_wheeled_base.layout import CIRCLE_ROWS, PARAMETERS
from rlstack.verification.navigation_episodes import held_out_episodes
from rlstack.verification.reality import Conditions

BURGER, DISC = load_robot("turtlebot3_burger"), load_robot("crowdnav_robot")
LIDAR = BURGER.lidars["scan"]


@pytest.fixture(scope="module")
def conditions():
    return Conditions(trials=held_out_episodes(BURGER, 2, 0, kinds=("clutter",)), robot=BURGER)


def signals(x):
    place = np.array([[x, 0.0, 0.0], [x, 0.0, 0.0]])
    return {
        "position": place,
        "orientation": from_yaw(np.zeros(2)),
        "linear_velocity": np.tile([0.2, 0.0, 0.0], (2, 1)),
        "goal_position": np.tile([5.0, 0.0, 0.0], (2, 1)),
        "people_position": place[:, None] + [1.0, 0.5, 0.0],
        "people_velocity": np.zeros((2, 1, 3)),
    }


def test_a_scale_of_odometry_is_about_the_start_and_people_stay_where_they_are_seen_from():
    change = OdometryScale(1.1).begin(2, 10.0, np.random.default_rng(0))
    assert np.allclose(change(0, signals(1.0))["position"][:, 0], 1.0)
    now = change(1, signals(2.0))
    assert np.allclose(now["position"][:, 0], 2.1) and np.allclose(now["linear_velocity"][:, 0], 0.22)
    assert np.allclose(now["goal_position"][:, 0], 1.0 + 1.1 * 4.0)
    assert np.allclose(now["people_position"][:, 0] - now["position"], [1.0, 0.5, 0.0])


def test_drift_grows_with_the_way():
    change = OdometryDrift(0.1).begin(2, 10.0, np.random.default_rng(0))
    change(0, signals(0.0))
    now = change(1, signals(2.0))
    assert np.allclose(np.linalg.norm(now["position"] - signals(2.0)["position"], axis=1), 0.2)
    assert (now["goal_position"] == signals(2.0)["goal_position"]).all()


def test_changes_of_the_scan():
    rng, scan = np.random.default_rng(0), {"scan": np.tile(np.linspace(0.2, 3.0, LIDAR.rays), (2, 1))}
    far = ScanDropouts(0.1, LIDAR.range_max_m).begin(2, 10.0, rng)(0, scan)["scan"]
    assert (far == LIDAR.range_max_m).mean() == pytest.approx(0.1, abs=0.04)
    half = FieldOfView(LIDAR, np.pi).begin(2, 10.0, rng)(0, scan)["scan"]
    assert (half[0, 91:270] == LIDAR.range_max_m).all() and (half[0, :90] == scan["scan"][0, :90]).all()
    blind = BlindZone(LIDAR, 0.5).begin(2, 10.0, rng)(0, scan)["scan"]
    assert (blind[scan["scan"] < 0.5] == LIDAR.range_max_m).all()
    turned = TurnedLidar(2).begin(2, 10.0, rng)(0, scan)["scan"]
    assert {int(np.argmin(row)) for row in turned} <= {2, LIDAR.rays - 2}


def test_every_axis_of_both_kinds_applies_at_its_required_and_farthest_values(conditions):
    crossing = Conditions(trials=course_of(CROWDNAV, DISC, 2, 0), robot=DISC)
    for nominal, axes in (
        (conditions, navigation_axes(BURGER, 10.0)),
        (crossing, crowd_axes(DISC, 4.0, False, 1.0)),
    ):
        assert len({axis.key for axis in axes}) == len(axes)
        for axis in axes:
            for value in {axis.required, axis.farthest} - {None}:
                changed = axis.apply(value, nominal)
                same = changed.trials is nominal.trials and changed.robot is nominal.robot
                assert not same or not changed.departures.nominal, axis.key


def test_robots_and_worlds_depart_by_the_value(conditions):
    axes = {axis.key: axis for axis in navigation_axes(BURGER, 10.0)}
    wider = axes["radius_scale"].apply(1.2, conditions).robot
    assert np.allclose(np.ptp(wider.corners_m, axis=0), 1.2 * np.ptp(BURGER.corners_m, axis=0))
    slower = axes["gain_scale_low"].apply(0.8, conditions).trials.parameters
    assert np.allclose(slower[PARAMETERS["gain"]], 0.8 * conditions.trials.parameters[PARAMETERS["gain"]])
    legs = axes["obstacle_width_m"].apply(0.025, conditions).trials.pool.circles.reshape(2, -1, CIRCLE_ROWS)
    assert np.allclose(legs[..., 2], 0.0125) and (np.abs(legs[..., 0]) < 5.0).sum() >= 8
    movers = axes["mover_speed_m_s"].apply(0.5, conditions).trials
    assert movers.movers is not None and len(movers) == 2
