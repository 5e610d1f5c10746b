"""Axes of the reality grid of quadrotors, with their required margins and the sources of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.reality import Axis, Conditions, control_rate, late, lost_messages

_STREAM = 0x6057
"""Separates the gusts' directions from other draws."""

_GUST_START_S, _GUST_S = (2.0, 5.0), 1.0
"""Start and length of the gust of the gust axis, s."""

_NOISE = ("position_noise_m", "orientation_noise_rad", "linear_velocity_noise_m_s", "angular_velocity_noise_rad_s")


def flight_axes(robot: Quadrotor, rate_hz: float) -> tuple[Axis, ...]:
    """Return the axes for a robot and a policy's control rate.

    Scales multiply what the trials already draw, and delays are added to the task's own.
    """
    weight_n = robot.body.mass_kg * 9.81
    return (
        late(
            "observation_delay_s",
            "Observation delay",
            farthest=0.06,
            required=0.02,
            resolution=0.0025,
            reason="motion capture is 5 to 15 ms old with its radio, visual-inertial odometry 20 to 50 ms"
            " (Delmerico and Scaramuzza, ICRA 2018)",
        ),
        late(
            "observation_jitter_s",
            "Observation jitter, 0 to",
            farthest=0.06,
            required=0.02,
            resolution=0.0025,
            reason="poses over Wi-Fi or a shared radio arrive up to two control periods apart",
        ),
        Axis(
            key="command_delay_s",
            title="Command delay",
            unit="s",
            nominal=0.0,
            farthest=0.06,
            required=0.02,
            reason="a companion computer, a serial link and the motor controllers take 5 to 20 ms",
            apply=_delayed_commands,
            resolution=0.0025,
        ),
        lost_messages(
            farthest=0.5,
            required=0.1,
            resolution=0.025,
            reason="best-effort radio links lose some percent of the packets, busy ones 10%",
        ),
        control_rate(rate_hz, required=rate_hz / 2.0, reason="an overloaded computer misses every second period"),
        _scale("mass_scale", "Mass, heavier", 1.6, 1.3, "a payload, a guard or a larger battery adds up to 30%", 0.05),
        _scale("mass_scale_low", "Mass, lighter", 0.4, 0.7, "a smaller battery, or a mass that was not weighed", 0.05),
        _scale("inertia_scale", "Inertia, larger", 4.0, 2.0, "inertia is rarely measured: a factor of 2", 0.25),
        _scale("inertia_scale_low", "Inertia, smaller", 0.2, 0.5, "inertia is rarely measured: a factor of 2", 0.05),
        _scale(
            "motor_lag_scale",
            "Motor lag, slower",
            4.0,
            2.0,
            "identified lags of one vehicle differ by 2 to 3: 0.15 s (arXiv 2311.13081) and 0.05 s (Foerster, 2015) for"
            " the Crazyflie",
            0.25,
        ),
        _scale("motor_lag_scale_low", "Motor lag, faster", 0.1, 0.3, "as for slower ones", 0.05),
        _scale(
            "thrust_scale",
            "Thrust",
            0.5,
            0.85 if robot.rate_loop is None else 0.8,
            "thrust falls with the square of the voltage, and a cell sags from 3.7 to 3.4 V",
            0.05,
        ),
        *_loop_axes(robot),
        _scale("drag_scale", "Drag", 20.0, None, "drag of the body matters in wind and at speed", 1.0),
        Axis(
            key="centre_of_mass_share",
            title="Centre of mass, of the arm",
            unit="share",
            nominal=0.0,
            farthest=0.5,
            required=None,
            reason="a battery or payload off the centre; forward, in shares of the front rotors' distance",
            apply=_off_centre,
            resolution=0.025,
        ),
        Axis(
            key="noise_scale",
            title="Sensor noise",
            unit="x",
            nominal=1.0,
            farthest=12.0,
            required=3.0,
            reason="the robot file has motion capture's noise; onboard estimates have several times that",
            apply=_noisier,
            resolution=0.5,
        ),
        Axis(
            key="orientation_bias_rad",
            title="Attitude bias",
            unit="rad",
            nominal=0.0,
            farthest=0.2,
            required=0.02,
            reason="an IMU is mounted and levelled to about 1 degree",
            apply=lambda value, c: c.departing(bias={"orientation": value}),
            resolution=0.01,
        ),
        Axis(
            key="angular_velocity_bias_rad_s",
            title="Gyroscope bias",
            unit="rad/s",
            nominal=0.0,
            farthest=0.5,
            required=0.02,
            reason="zero-rate offset of a BMI088, 1 degree/s (its datasheet)",
            apply=lambda value, c: c.departing(bias={"angular_velocity": value}),
            resolution=0.02,
        ),
        Axis(
            key="linear_velocity_bias_m_s",
            title="Velocity bias",
            unit="m/s",
            nominal=0.0,
            farthest=0.5,
            required=None,
            reason="velocity from optical flow or odometry drifts; what remains is an offset of the position",
            apply=lambda value, c: c.departing(bias={"linear_velocity": value}),
            resolution=0.02,
        ),
        Axis(
            key="gust_share",
            title="Gust, of the weight",
            unit="share",
            nominal=0.0,
            farthest=0.6,
            required=None,
            reason=f"one horizontal gust of {_GUST_S:g} s in every flight; staying within the radius counts",
            apply=lambda value, c: _gust(value * weight_n, c),
            resolution=0.025,
        ),
        Axis(
            key="together",
            title="Delay, mass, lag, noise together",
            unit="x",
            nominal=0.0,
            farthest=3.0,
            required=1.0,
            reason="departures come together: at 1, 20 ms of observation delay, mass +20%, lag x1.5, noise x2",
            apply=_together,
            resolution=0.25,
        ),
    )


def _loop_axes(robot: Quadrotor) -> tuple[Axis, ...]:
    """Return the axes of a robot whose autopilot controls the rates."""
    if robot.rate_loop is None:
        return ()
    curve = "an autopilot's thrust curve is a fit at one voltage: a fifth either way"
    loops = "autopilots' rate loops take 20 to 40 ms, with filters and soft gains twice that"
    trim = "a loop's integral takes some tenths of a second, until when it cancels only a part"
    return (
        _scale("thrust_scale_high", "Thrust, more", 1.6, 1.2, curve, 0.05),
        _scale("rate_lag_scale", "Rate loop, slower", 4.0, 2.0, loops, 0.25),
        _scale("rate_lag_scale_low", "Rate loop, faster", 0.2, 0.5, loops, 0.05),
        _scale("rate_rejection_scale", "Torques cancelled, share", 0.0, 0.5, trim, 0.1),
    )


_FIELDS = {
    "mass_scale": ("mass_scale",),
    "inertia_scale": ("inertia_scale",),
    "motor_lag_scale": ("time_constant_scale",),
    "thrust_scale": ("thrust_scale",),
    "drag_scale": ("drag_scale",),
    "rate_lag_scale": ("rate_lag_scale",),
    "rate_rejection_scale": ("rate_rejection_scale",),
}
"""Fields of the perturbation by axis."""


def _scale(key: str, title: str, farthest: float, required: float | None, reason: str, resolution: float) -> Axis:
    names = _FIELDS[key.removesuffix("_low").removesuffix("_high")]
    return Axis(
        key=key,
        title=title,
        unit="x",
        nominal=1.0,
        farthest=farthest,
        required=required,
        reason=reason,
        apply=lambda value, c: _scaled(c, dict.fromkeys(names, value)),
        resolution=resolution,
    )


def _perturbed(conditions: Conditions, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Conditions:
    """Return conditions in which fields of the trials' perturbation have other values."""
    trials: Scenario = conditions.trials
    perturbation = replace(trials.perturbation, **change(vars(trials.perturbation)))
    return replace(conditions, trials=replace(trials, perturbation=perturbation))


def _scaled(conditions: Conditions, scales: dict[str, float]) -> Conditions:
    return _perturbed(conditions, lambda now: {name: now[name] * scale for name, scale in scales.items()})


def _delayed_commands(value: float, conditions: Conditions) -> Conditions:
    """Delay commands in the simulator, which is exact between control periods."""
    return _perturbed(conditions, lambda now: {"delay_s": now["delay_s"] + value})


def _noisier(value: float, conditions: Conditions) -> Conditions:
    robot: Quadrotor = conditions.robot
    odom = robot.sensors["odom"]
    louder = replace(odom, **{name: value * getattr(odom, name) for name in _NOISE})
    return replace(conditions, robot=replace(robot, sensors={**robot.sensors, "odom": louder}))


def _off_centre(value: float, conditions: Conditions) -> Conditions:
    """Move the rotors backward relative to the centre of mass, which the simulator's body is about."""
    robot: Quadrotor = conditions.robot
    back = value * float(np.abs(robot.rotor_positions[:, 0]).max())
    moved = tuple(
        replace(rotor, position_m=(rotor.position_m[0] - back, *rotor.position_m[1:])) for rotor in robot.rotors
    )
    return replace(conditions, robot=replace(robot, rotors=moved))


def _gust(force_n: float, conditions: Conditions) -> Conditions:
    count = len(conditions.trials)
    rng = np.random.default_rng(_STREAM)
    angle, start = rng.uniform(-np.pi, np.pi, count), rng.uniform(*_GUST_START_S, count)
    force = force_n * np.stack([np.cos(angle), np.sin(angle), np.zeros(count)], axis=1)
    return _perturbed(
        conditions,
        lambda now: {"gust_force_n": force, "gust_start_s": start, "gust_duration_s": np.full(count, _GUST_S)},
    )


def _together(value: float, conditions: Conditions) -> Conditions:
    changed = _scaled(conditions, {"mass_scale": 1.0 + 0.2 * value, "time_constant_scale": 1.0 + 0.5 * value})
    return _noisier(1.0 + value, changed).departing(observation_delay_s=0.02 * value)
