"""The baseline of races: the fastest line around each track, followed by pure pursuit.

Gains and margins were tuned on ten training tracks with ``benchmarks/racing.py --tune``. Needs casadi.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlstack.control.racing_line import CarLimits, PursuitGains, RacingLine, RacingLineController, fastest_line
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.sim.batch_wheeled_base.layout import PARAMETERS
from rlstack.sim.batch_wheeled_base.parameters import nominal
from rlstack.sim.maps.tracks import Track

NAME = "pure_pursuit"
"""Its name in reports."""

MARGIN_M, GRIP_SHARE, BEND_RATE_1_M_S = 0.12, 0.7, 5.0
"""Margins of the line: distance to walls, and shares of the tyres' grip and of the steering rate that it uses."""
GAINS = PursuitGains(ahead_m=0.615, ahead_s=0.093, preview_s=0.073, lead_s=0.024, speed_share=1.0)


def limits_of(robot: WheeledBase) -> CarLimits:
    """Return the car's limits from the robot file."""
    rows = nominal(robot, 1)[:, 0]
    bend, wheelbase, rate = (float(number) for number in rows[PARAMETERS["steering"]])
    return CarLimits(
        speed_m_s=robot.limits.linear_velocity_m_s,
        acceleration_m_s2=robot.limits.linear_acceleration_m_s2,
        grip_m_s2=float(rows[PARAMETERS["grip"]][0]),
        bend_1_m=bend,
        bend_rate_1_m_s=rate / wheelbase,
        outline_m=tuple((float(x), float(y)) for x, y in robot.corners_m),
    )


def lines_of(tracks: Sequence[Track], limits: CarLimits, margin_m: float = MARGIN_M) -> list[RacingLine]:
    """Return the fastest line of each track for a car; takes about a second each.

    Raises:
        UserError: casadi is not installed.
    """
    try:
        return [
            fastest_line(t.middle, t.tangent, t.curvature, t.length_m, t.half_width_m, limits, margin_m) for t in tracks
        ]
    except ImportError as error:
        raise UserError(
            f"The fastest line needs casadi, which is missing ({error}): pip install 'rlstack[racing]'."
        ) from error


def race_baseline(tracks: Sequence[Track], robot: WheeledBase) -> RacingLineController:
    """Return the baseline driver for N cars, each on its track.

    Raises:
        UserError: casadi is not installed.
    """
    limits = limits_of(robot)
    tighter = replace(limits, grip_m_s2=GRIP_SHARE * limits.grip_m_s2, bend_rate_1_m_s=BEND_RATE_1_M_S)
    return RacingLineController(lines_of(tracks, tighter), GAINS)
