"""Axes of the reality grid of wheeled bases, with their required margins and the sources of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.interfaces.topics import PEOPLE, SCAN
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.verification_departures import (
    BlindZone,
    FieldOfView,
    OdometryDrift,
    OdometryJumps,
    OdometryScale,
    ScanDropouts,
    TurnedLidar,
    moved_on,
)
from rlstack.robots.footprint import FootprintShape
from rlstack.sim.batch_wheeled_base.layout import CIRCLE_ROWS, PARAMETERS
from rlstack.sim.crowds.moving_obstacles import MovingObstacles, moving_scenes
from rlstack.sim.crowds.walking_models import PERSON, PERSON_WIDTH
from rlstack.verification.navigation_episodes import NavigationEpisodes, held_out_episodes
from rlstack.verification.reality import Axis, Conditions, control_rate, late, lost_messages

CHAIRS = "chairs"
"""The kind of map of the axis of thin obstacles."""

_STREAM = 0x1E65
"""Separates chairs and movers from other draws."""

_KNOWN: dict[tuple[str, float, int], NavigationEpisodes] = {}
"""Maps with chairs that were drawn already: they take seconds."""

_POLE_M = 0.12
"""Diameter of the thinnest obstacle of the nominal maps."""


def navigation_axes(robot: WheeledBase, rate_hz: float) -> tuple[Axis, ...]:
    """Return the axes of tasks whose robots see with a scan, on maps."""
    return (
        *_scan_axes(robot),
        *_common_axes(rate_hz),
        *_odometry_axes(),
        Axis(
            key="obstacle_width_m",
            title="Chair legs, thick",
            unit="m",
            nominal=_POLE_M,
            farthest=0.01,
            required=0.025,
            reason="legs of kitchen and office chairs are 2 to 3 cm thick; other maps with chairs of such legs",
            apply=lambda value, c: _chairs(value, c),
            values=(_POLE_M, 0.06, 0.04, 0.03, 0.025, 0.02, 0.015, 0.01),
        ),
        Axis(
            key="mover_speed_m_s",
            title="Movers, 1 to 3, at",
            unit="m/s",
            nominal=0.0,
            farthest=1.0,
            required=None,
            reason="people walk at 0.5 to 1.4 m/s; half of the movers give way. Nothing slow can avoid all",
            apply=lambda value, c: _movers(value, c),
            resolution=0.125,
        ),
    )


def crowd_axes(robot: WheeledBase, rate_hz: float, scan: bool, speed_m_s: float) -> tuple[Axis, ...]:
    """Return the axes of tasks among people.

    Args:
        robot: The base.
        rate_hz: Control rate.
        scan: Whether drivers receive a scan, and people tracked in it.
        speed_m_s: The people's speed in the nominal trials.
    """
    period_s = 1.0 / rate_hz
    axes = (
        Axis(
            key="people_delay_s",
            title="People, older by",
            unit="s",
            nominal=0.0,
            farthest=2.0,
            required=0.5,
            reason="trackers run at 5 to 10 Hz, and detectors in images take 0.1 to 0.5 s; the policy node moves people"
            " on by their velocity",
            apply=lambda value, c: c.departing(observation_delay_s=value, topics=(PEOPLE,), received=moved_on),
            resolution=max(0.25, period_s),
        ),
        Axis(
            key="people_position_noise_m",
            title="Noise of people's positions",
            unit="m",
            nominal=0.0,
            farthest=0.4,
            required=0.1,
            reason="legs in a scan show a person's centre to about 10 cm (arXiv 2106.11239: DR-SPAAM, 0.3 m gate)",
            apply=lambda value, c: c.departing(noise={"people_position": value}),
            resolution=0.025,
        ),
        Axis(
            key="people_speed_m_s",
            title="People's speed",
            unit="m/s",
            nominal=speed_m_s,
            farthest=2.0 * speed_m_s,
            required=1.3 * speed_m_s,
            reason="people walk at 1.3 m/s on average where the setting has 1 m/s (Bohannon, Age and Ageing 1997)",
            apply=lambda value, c: _people_at(value, c),
            resolution=0.1 * speed_m_s,
        ),
        *_common_axes(rate_hz),
        *_odometry_axes(),
    )
    return (*axes, *_scan_axes(robot)) if scan else (*axes, *_acceleration_axes(robot))


def _scan_axes(robot: WheeledBase) -> tuple[Axis, ...]:
    lidar = robot.lidars[SCAN]
    full = float(lidar.angle_increment_rad * lidar.rays)
    view = min(np.pi, full)
    axes = [
        Axis(
            key="scan_delay_s",
            title="Scan delay",
            unit="s",
            nominal=0.0,
            farthest=0.6,
            required=0.2,
            reason="a lidar that turns at 5 Hz, such as the TurtleBot3's (ROBOTIS e-Manual, LDS-01 and LDS-02), sends"
            " a scan when its first ray is 0.2 s old",
            apply=lambda value, c: c.departing(observation_delay_s=value, topics=(SCAN,)),
            resolution=0.1,
        ),
        *(
            Axis(
                key=f"scan_dropout_{name}_share",
                title=f"Rays lost, read {word}",
                unit="share",
                nominal=0.0,
                farthest=0.6,
                required=0.1,
                reason=reason,
                apply=_dropping(reads),
                resolution=0.05,
            )
            for name, word, reads, reason in (
                ("far", "far", lidar.range_max_m, "black, shiny and transparent things return nothing"),
                ("near", "near", lidar.range_min_m, "sun, dust and drivers that report errors as the least range"),
            )
        ),
        Axis(
            key="scan_mount_rad",
            title="Lidar turned",
            unit="rad",
            nominal=0.0,
            farthest=0.35,
            required=2.0 * lidar.angle_increment_rad if lidar.angle_increment_rad < 0.08 else None,
            reason="a lidar that is screwed on by hand: 2 degrees",
            apply=lambda value, c: c.departing(changes=(TurnedLidar(round(value / lidar.angle_increment_rad)),)),
            resolution=lidar.angle_increment_rad,
        ),
        Axis(
            key="scan_blind_m",
            title="Blind zone of the lidar",
            unit="m",
            nominal=lidar.range_min_m,
            farthest=lidar.range_min_m + 0.4,
            required=None,
            reason="a lidar that returns nothing from nearer than that; what it lost, the base must remember",
            apply=lambda value, c: c.departing(changes=(BlindZone(lidar, value),)),
            resolution=0.05,
        ),
        Axis(
            key="scan_noise_scale",
            title="Scan noise",
            unit="x",
            nominal=1.0,
            farthest=6.0,
            required=3.0,
            reason="the robot file has the data sheet's noise; on dark and slanted surfaces it is several times that",
            apply=_noisier,
            resolution=1.0,
        ),
    ]
    if full > np.pi + 1e-3:
        axes.append(
            Axis(
                key="field_of_view_rad",
                title="Field of view",
                unit="rad",
                nominal=full,
                farthest=np.pi / 3.0,
                required=view,
                reason="many lidars are built in so that a half sees the robot itself: 180 degrees",
                apply=lambda value, c: c.departing(changes=(FieldOfView(lidar, value),)),
                values=tuple(full if k == 12 else k * np.pi / 6.0 for k in (12, 10, 8, 6, 5, 4, 3, 2)),
            )
        )
    return tuple(axes)


def _common_axes(rate_hz: float) -> tuple[Axis, ...]:
    period_s = 1.0 / rate_hz
    return (
        late(
            "command_delay_s",
            "Command delay",
            farthest=0.6,
            required=0.1,
            resolution=0.05,
            reason="Wi-Fi, ROS and the bus to the motors: 50 to 100 ms",
        ),
        lost_messages(
            farthest=0.7,
            required=0.1,
            resolution=0.05,
            reason="best effort over Wi-Fi loses some percent of the messages, far from the access point 10%",
        ),
        control_rate(
            rate_hz,
            required=rate_hz / 2.0 if period_s < 0.2 else None,
            reason="an overloaded computer misses every second period",
        ),
        *_scales(
            "gain_scale",
            "Speed, of the commanded one",
            (0.5, 0.8),
            (1.6, 1.2),
            0.05,
            "wheel radius, slip and a sagging battery: 20%",
            _gained,
        ),
        *_scales(
            "radius_scale",
            "Robot's radius",
            None,
            (1.6, 1.2),
            0.05,
            "bumpers, cables and a load that sticks out: 2 cm of a TurtleBot3's 10",
            _wider,
        ),
    )


def _odometry_axes() -> tuple[Axis, ...]:
    return (
        Axis(
            key="odometry_delay_s",
            title="Odometry delay",
            unit="s",
            nominal=0.0,
            farthest=0.6,
            required=0.1,
            reason="wheel odometry at 10 to 30 Hz through a filter: 30 to 100 ms",
            apply=lambda value, c: c.departing(observation_delay_s=value, topics=("odom",)),
            resolution=0.05,
        ),
        *_scales(
            "odometry_scale",
            "Odometry, of the true distance",
            (0.6, 0.95),
            (1.4, 1.05),
            0.05,
            "tyres worn or soft: some percent of their radius. The goal is a place of odom, as on the topic",
            lambda value, c: c.departing(changes=(OdometryScale(value),)),
        ),
        Axis(
            key="odometry_drift_share",
            title="Odometry drift, of the way",
            unit="share",
            nominal=0.0,
            farthest=0.2,
            required=None,
            reason="wheel odometry alone drifts by 1 to 5%; judged on the floor, where a base without a map cannot"
            " correct it",
            apply=lambda value, c: c.departing(changes=(OdometryDrift(value),)),
            resolution=0.005,
        ),
        Axis(
            key="odometry_jump_m",
            title="Odometry jumps, each 5 s",
            unit="m",
            nominal=0.0,
            farthest=0.5,
            required=None,
            reason="a localisation corrects itself in jumps; judged on the floor, within 0.2 m of the goal",
            apply=lambda value, c: c.departing(changes=(OdometryJumps(value),)),
            resolution=0.025,
        ),
    )


def _acceleration_axes(robot: WheeledBase) -> tuple[Axis, ...]:
    """Return the axis of a base that, by its file, takes any velocity at once."""
    nominal = robot.limits.linear_acceleration_m_s2
    values = tuple(one for one in (4.0, 2.0, 1.0, 0.5, 0.35, 0.25) if one < nominal)
    return (
        Axis(
            key="acceleration_m_s2",
            title="Acceleration limit",
            unit="m/s^2",
            nominal=nominal,
            farthest=values[-1],
            required=0.5,
            reason="base controllers limit it to 0.5 to 2.5 m/s^2 (Nav2's velocity smoother: 2.5)",
            apply=_accelerating,
            values=(nominal, *values),
        ),
    )


def _scales(
    key: str,
    title: str,
    low: tuple[float, float] | None,
    high: tuple[float, float],
    resolution: float,
    reason: str,
    apply: Callable[[float, Conditions], Conditions],
) -> tuple[Axis, ...]:
    """Return the axes of a factor; ``low`` and ``high`` are the farthest and the required values."""
    ends = {key: high, **({f"{key}_low": low} if low else {})}
    names = {key: f"{title}, more" if low else title, f"{key}_low": f"{title}, less"}
    return tuple(
        Axis(
            key=name,
            title=names[name],
            unit="x",
            nominal=1.0,
            farthest=farthest,
            required=required,
            reason=reason,
            apply=apply,
            resolution=resolution,
        )
        for name, (farthest, required) in ends.items()
    )


def _dropping(reads_m: float) -> Callable[[float, Conditions], Conditions]:
    return lambda share, conditions: conditions.departing(changes=(ScanDropouts(share, reads_m),))


def _gained(value: float, conditions: Conditions) -> Conditions:
    """Scale speed and turning rate."""
    trials: NavigationEpisodes = conditions.trials
    parameters = trials.parameters.copy()
    parameters[PARAMETERS["gain"]] *= value
    return replace(conditions, trials=replace(trials, parameters=parameters))


def _accelerating(value: float, conditions: Conditions) -> Conditions:
    trials: NavigationEpisodes = conditions.trials
    parameters = trials.parameters.copy()
    parameters[PARAMETERS["acceleration"].start] = value
    return replace(conditions, trials=replace(trials, parameters=parameters))


def _wider(value: float, conditions: Conditions) -> Conditions:
    robot: WheeledBase = conditions.robot
    if robot.outline is not None and robot.outline.radius_m is not None:
        shape = FootprintShape(radius_m=value * robot.outline.radius_m)
    else:
        middle = robot.corners_m.mean(axis=0)
        corners = middle + value * (robot.corners_m - middle)
        shape = FootprintShape(corners_m=tuple((float(x), float(y)) for x, y in corners))
    return replace(conditions, robot=replace(robot, outline=shape))


def _noisier(value: float, conditions: Conditions) -> Conditions:
    robot: WheeledBase = conditions.robot
    lidar = robot.lidars[SCAN]
    noisy = replace(lidar, noise_m=value * lidar.noise_m, noise_share=value * lidar.noise_share)
    return replace(conditions, robot=replace(robot, lidars={**robot.lidars, SCAN: noisy}))


def _chairs(width_m: float, conditions: Conditions) -> Conditions:
    """Replace the maps by maps with chairs, whose legs have that diameter."""
    trials = _chair_maps(conditions.robot, len(conditions.trials))
    circles = trials.pool.circles.copy().reshape(len(trials), -1, CIRCLE_ROWS)
    circles[..., 2] = 0.5 * width_m
    maps = tuple(
        replace(m, circles=np.concatenate([m.circles[:, :2], np.full((len(m.circles), 1), 0.5 * width_m)], axis=1))
        for m in trials.pool.maps
    )
    pool = replace(trials.pool, maps=maps, circles=circles.reshape(len(trials), -1))
    return replace(conditions, trials=replace(trials, pool=pool))


def _chair_maps(robot: WheeledBase, count: int) -> NavigationEpisodes:
    key = robot.name, robot.radius_m, count
    if key not in _KNOWN:
        found = held_out_episodes(robot, count, _STREAM, kinds=(CHAIRS,))
        _KNOWN[key] = found.take(np.random.default_rng(_STREAM).permutation(count))
    return _KNOWN[key]


def _movers(speed_m_s: float, conditions: Conditions) -> Conditions:
    """Add movers of that speed to the maps."""
    trials: NavigationEpisodes = conditions.trials
    moving = MovingObstacles(count=(1, 3), speed_m_s=(speed_m_s, speed_m_s))
    rng = np.random.default_rng(_STREAM)
    scenes = moving_scenes(rng, trials.pool.maps, moving, conditions.robot.radius_m)
    return replace(conditions, trials=replace(trials, movers=scenes))


def _people_at(speed_m_s: float, conditions: Conditions) -> Conditions:
    trials: Any = conditions.trials
    scenes = trials.movers
    persons = scenes.persons.reshape(len(scenes), -1, PERSON_WIDTH).copy()
    persons[..., PERSON["speed"]] = speed_m_s
    movers = replace(scenes, persons=persons.reshape(len(scenes), -1))
    return replace(conditions, trials=replace(trials, movers=movers))
