"""An autopilot's rate loop and mixer: from body rates and collective thrust to rotor speeds, in numpy style.

The loop stands for those of Betaflight, PX4, ArduPilot and the Crazyflie's firmware as a policy meets them: a rate
follows its command with a lag, a torque that disturbs it is rejected, and saturated rotors give roll and pitch first,
then thrust, then yaw. It is not a copy of any of them, and training randomises its lag and its rejection.

The wanted angular acceleration is the rate error over the lag. The torque that disturbs the body is the one that its
angular acceleration shows beyond what the rotors give (incremental nonlinear dynamic inversion; E. Smeur, Q. Chu,
G. de Croon, "Adaptive Incremental Nonlinear Dynamic Inversion for Attitude Control of Micro Air Vehicles", JGCD 2016),
of which a share is cancelled. Motors are led, so that they reach their wanted speed a quarter of the lag later: the
two make a loop with critical damping, whose step response is at 65% after the lag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.fused import clip, greater, maximum, minimum, where
from rlstack.sim.physics.body import Vector, cross, vector
from rlstack.sim.physics.rotor import thrust

HORIZON = 0.25
"""Share of the lag after which the motors reach a wanted speed."""
_TINY, _SMOOTH = 1e-9, 0.04


def rotor_commands(rates: Vector, turning: Vector, speed: Vector, wanted: Vector, p: Mapping[str, Vector]) -> Vector:
    """Return the commanded rotor speeds (4,), rad/s; 0 where the wanted thrust is below 0.

    Args:
        rates: (3,) rad/s, body.
        turning: (3,) rad/s^2, body: their present derivative.
        speed: (4,) rad/s, the rotors' present speeds.
        wanted: (4,) roll, pitch and yaw rate rad/s, collective thrust per mass m/s^2.
        p: Parameters by name, as in :data:`rlstack.sim.batch_quadrotor.layout.PARAMETERS`; those that begin with
            ``loop_`` are what the autopilot believes.
    """
    lag, yaw_lag, rejection = p["loop_lag"]
    inertia, inverse = p["loop_inertia"], p["loop_mixer"]
    low, high = p["speed_range"]
    coefficients = p["thrust_coefficients"]
    now, floor, ceiling = (thrust(w, coefficients, 1.0) for w in (speed, low, high))
    errors = wanted[:3] - rates
    wish = vector(errors[0] / lag, errors[1] / lag, errors[2] / yaw_lag)
    gyroscopic = cross(rates, inertia * rates)
    driven = vector(*((p["loop_arms"][4 * k : 4 * k + 4] * now).sum(axis=0) for k in range(3)))
    disturbing = inertia * turning + gyroscopic - driven
    torque = inertia * wish + gyroscopic - rejection * disturbing
    each = mixed([inverse[k::4] for k in range(4)], p["loop_mass"][0] * wanted[3], torque, floor, ceiling)
    speeds = speed_for_thrust(each, coefficients, high)
    reach = 1.0 - np.exp(-HORIZON * lag / p["loop_motors"])
    gap = speeds - speed
    led = clip(speed + gap / where(greater(gap, 0.0), reach[0], reach[1]), low, high)
    return where(wanted[3] < 0.0, 0.0, led)


def mixed(inverse: Sequence[Vector], lift: Any, torque: Vector, floor: Any, ceiling: Any) -> Vector:
    """Return rotor thrusts (4,), N, within bounds: roll and pitch first, then thrust, then yaw.

    Args:
        inverse: (4,) each: rotor thrusts per newton of lift, and per newton metre about x, y and z.
        lift: N.
        torque: (3,) N m.
        floor: Least thrust of a rotor, N.
        ceiling: Largest thrust of a rotor, N.
    """
    turn = inverse[1] * torque[0] + inverse[2] * torque[1]
    spread = maximum(_most(turn) + _most(-turn), _TINY)
    turn = turn * minimum((ceiling - floor) / spread, 1.0)
    level = inverse[0] * lift + turn
    level = level + maximum(minimum(ceiling - _most(level), 0.0), floor + _most(-level))
    step = inverse[3] * torque[2]
    room = where(greater(step, 0.0), ceiling - level, level - floor)
    share = minimum(-_most(-room / maximum(abs(step), _TINY)), 1.0)
    return clip(level + step * maximum(share, 0.0), floor, ceiling)


def speed_for_thrust(wanted: Vector, coefficients: Vector, top: Any) -> Vector:
    """Return the rotor speeds, rad/s, at which c0 + c1 w + c2 w^2 is ``wanted``, N; without a limit.

    Args:
        wanted: N.
        coefficients: c0, c1, c2.
        top: Top speed, rad/s: below some percent of it the speed falls slower than the root, whose slope is infinite.
    """
    c0, c1, c2 = coefficients
    above, least = wanted - c0, _SMOOTH * c2 * top
    root = np.sqrt(maximum(c1 * c1 + 4.0 * c2 * above, 0.0) + least * least + 1e-18)
    # the form of the root that does not divide by c2; a fit with a falling linear part needs the other one
    return where(c1 < 0.0, (root - c1) / where(c2 > 0.0, 2.0 * c2, 1.0), 2.0 * above / maximum(c1 + root, _TINY))


def _most(values: Vector) -> Any:
    first, *rest = values
    for value in rest:
        first = maximum(first, value)
    return first
