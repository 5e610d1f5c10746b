"""Per-episode outcomes of flights: success, loss, and time to recover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.trial_records import FlightRecord

CLOSE_M = 0.1
"""A tighter radius, reported beside the success radius, m."""


@dataclass(frozen=True)
class FlightOutcome:
    """Outcomes of N episodes.

    Args:
        success: (N,) stayed within the radius over the window.
        close: (N,) stayed within :data:`CLOSE_M` over the window.
        lost: (N,) ever too far away or not finite.
        error_m: (N,) mean distance over the window, m.
        rmse_m: (N,) root of the mean squared distance over the window, m.
        recover_s: (N,) time to recover, s; infinite if never.
        excursion_m: (N,) largest distance at any time, m.
    """

    success: NDArray[np.bool_]
    close: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    error_m: Array
    rmse_m: Array
    recover_s: Array
    excursion_m: Array


def outcome(episodes: FlightRecord, criteria: SuccessCriteria) -> FlightOutcome:
    """Judge each episode by the definitions of :func:`rlstack.verification.flight_score.score_flights`.

    Raises:
        UserError: There are no episodes, or they are too short for the window.
    """
    window = judge_window(episodes, criteria)
    error = episodes.error_m
    inside = error <= criteria.radius_m
    # Count samples inside from the end: the run of them ends at the last sample outside.
    tail = np.cumprod(inside[::-1], axis=0).sum(axis=0)
    first_of_tail = np.minimum(len(error) - tail, len(error) - 1)
    recover = np.where(tail > 0, episodes.time_s[first_of_tail], np.inf)
    finite = np.ones(len(episodes), dtype=bool)
    for array in (episodes.position, episodes.orientation, episodes.linear_velocity, episodes.angular_velocity):
        finite &= np.isfinite(array).all(axis=(0, 2))
    return FlightOutcome(
        success=np.all(inside[window], axis=0),
        close=np.all(error[window] <= CLOSE_M, axis=0),
        lost=(error > criteria.lost_m).any(axis=0) | ~finite,
        error_m=error[window].mean(axis=0),
        rmse_m=np.sqrt(np.square(error[window]).mean(axis=0)),
        recover_s=recover,
        excursion_m=error.max(axis=0),
    )


def judge_window(episodes: FlightRecord, criteria: SuccessCriteria) -> NDArray[np.bool_]:
    """Return (T,) which samples are judged: from ``from_s`` to ``to_s``, both included.

    Raises:
        UserError: There are no episodes, or they are too short for the window.
    """
    time, from_s, to_s = episodes.time_s, criteria.from_s, criteria.to_s
    slack = 1e-6  # s; sample times carry rounding errors
    if len(episodes) == 0:
        raise UserError("There are no episodes to score: fly at least one.")
    if time.size == 0 or time[-1] < to_s - slack:
        last = time[-1] if time.size else 0.0
        raise UserError(
            f"The episodes of {episodes.simulator} last {last:g} s but are scored from second {from_s:g} to second"
            f" {to_s:g}: fly at least {to_s:g} s."
        )
    window = (time >= from_s - slack) & (time <= to_s + slack)
    if not window.any():
        raise UserError(f"No sample lies between second {from_s:g} and second {to_s:g}: the control rate is too low.")
    return np.asarray(window)
