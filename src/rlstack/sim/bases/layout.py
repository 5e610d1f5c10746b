"""Rows of a base's state and parameters, as the fused kernels read them: (rows, N), robots along the last axis.

All is in the plane: the map's frame is ``odom``, x and y in metres.
"""

from __future__ import annotations

from rlstack.sim.batch.layout import slices

STATE = slices(
    {
        "position": 2,  # m, map
        "turn": 2,  # z and w of the heading's quaternion, of length 1
        "velocity": 2,  # m/s, base_link: ahead and to the left
        "yaw_rate": 1,  # rad/s
        "setpoint": 3,  # m/s, m/s, rad/s: what the limits have let through of the command
        "ramp": 3,  # m/s^2, m/s^2, rad/s^2: its rate
        "curvature": 1,  # 1/m: yaw rate over speed that the steered wheels ask for; of an Ackermann base
        "elapsed": 1,  # s since the start
    }
)
"""Rows of the state by name."""

STATE_WIDTH = STATE["elapsed"].stop

PARAMETERS = slices(
    {
        "limits": 4,  # m/s least and most ahead, m/s to either side, rad/s
        "acceleration": 2,  # m/s^2, rad/s^2 of the setpoint
        "jerk": 2,  # m/s^3, rad/s^3 of the setpoint
        "lag": 2,  # s: of speed and of turning behind the setpoint
        "gain": 2,  # share of the setpoint's speed and turning that is reached: what wheels that slip leave
        "delay": 1,  # s until a command acts
        "steering": 3,  # greatest curvature 1/m, wheelbase m, greatest steering rate rad/s; of an Ackermann base
        "grip": 1,  # m/s^2 to the side that the wheels can give
        "radius": 1,  # m, of the disc around the footprint
    }
)
"""Rows of the parameters by name."""

PARAMETER_WIDTH = PARAMETERS["radius"].stop

BOX_ROWS = 6
"""Rows of a box: centre x and y m, cosine and sine of its yaw, half its length along its own x and y m."""

CIRCLE_ROWS = 5
"""Rows of a circle: centre x and y m, radius m, velocity x and y m/s."""

ABSENT_M = 1e3
"""Where obstacles are that a map does not have, m."""

ABSENT_SIZE_M = 0.01
"""Their half length or radius, m."""
