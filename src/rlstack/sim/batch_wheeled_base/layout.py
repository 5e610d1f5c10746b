"""Row layout of a base's state and parameters in the fused kernels: (rows, N), robots along the last axis.

All quantities are planar; the map frame is ``odom``, x and y in metres.
"""

from __future__ import annotations

from rlstack.sim.batch_quadrotor.layout import slices

STATE = slices(
    {
        "position": 2,  # m, map
        "turn": 2,  # z and w of the heading's unit quaternion
        "velocity": 2,  # m/s, base_link: forward and left
        "yaw_rate": 1,  # rad/s
        "setpoint": 3,  # m/s, m/s, rad/s: the command after the limits
        "ramp": 3,  # m/s^2, m/s^2, rad/s^2: rate of the setpoint
        "curvature": 1,  # 1/m: curvature of the steered wheels, of an Ackermann base
        "elapsed": 1,  # s since the start
    }
)
"""Rows of the state by name."""

STATE_WIDTH = STATE["elapsed"].stop

PARAMETERS = slices(
    {
        "limits": 4,  # m/s least and greatest forward speed, m/s lateral speed, rad/s
        "acceleration": 2,  # m/s^2, rad/s^2 of the setpoint
        "jerk": 2,  # m/s^3, rad/s^3 of the setpoint
        "lag": 2,  # s: time constants of speed and yaw rate
        "gain": 2,  # share of the setpoint's speed and yaw rate that is reached despite wheel slip
        "delay": 1,  # s until a command acts
        "steering": 3,  # greatest curvature 1/m, wheelbase m, greatest steering rate rad/s, of an Ackermann base
        "grip": 1,  # m/s^2: greatest lateral acceleration of the tyres
        "radius": 1,  # m: radius of the footprint's bounding disc
    }
)
"""Rows of the parameters by name."""

PARAMETER_WIDTH = PARAMETERS["radius"].stop

BOX_ROWS = 6
"""Rows of a box: centre x and y m, cosine and sine of its yaw, half its length along its own x and y m."""

CIRCLE_ROWS = 5
"""Rows of a circle: centre x and y m, radius m, velocity x and y m/s."""

ABSENT_M = 1e3
"""Position of absent obstacles, m."""

ABSENT_SIZE_M = 0.01
"""Half length or radius of absent obstacles, m."""
