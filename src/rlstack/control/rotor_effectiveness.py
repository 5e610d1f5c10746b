"""What each rotor of a flying quadrotor gives of the thrust that its file says, from measured angular rates.

A weak motor turns the body by much more than attitude feedback alone can hold: at 80% a Crazyflie's gives 96 rad/s^2 of
roll and of pitch. The estimate compares measured rates with those that the file's robot would have under the same rotor
speeds. Incremental nonlinear dynamic inversion (E. Smeur, Q. Chu, G. de Croon, "Adaptive incremental nonlinear dynamic
inversion for attitude control of micro air vehicles", JGCD 2016) cancels the same difference; as shares of the rotors'
thrusts it also follows the thrust, bounds what a rotor can still give, and serves a controller that takes over.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.kinds.quadrotor.spec_allocation import allocation, inverse_allocation

LEAST = 0.3
"""Smallest share that is believed: with less, most quadrotors cannot hover."""
LONGEST_GAP_S = 0.1
"""Rates farther apart than this tell nothing, and the observer begins anew."""
MOST_RAD_S = 200.0
"""Rates beyond this are of no robot in flight, and are not learned from."""
LONGEST_MEMORY_S = 1.0
"""How old rates may be at most, as far as rotor speeds are remembered."""
_LATE = 5.0
"""Ratio of the estimate's time constant to how late rates are, for those that are very late."""
_LEAST_THRUST = 0.25
"""Share of the hover thrust below which a rotor's share changes more slowly than its torque would tell."""


class RotorEffectiveness:
    """Estimates every rotor's thrust over the file's, relative to the strongest.

    An observer of the angular rates with both poles at ``bandwidth_per_s``; its innovation becomes thrust that the
    rotors lack. Three rates tell three of four shares: the strongest rotor is taken to be as the file says, because
    what all lack together is another mass, or a weak battery, which the height's integral holds.

    Args:
        robot: The robot.
        bandwidth_per_s: How fast the estimate follows, 1/s.
    """

    def __init__(self, robot: Quadrotor, bandwidth_per_s: float) -> None:
        self._bandwidth = bandwidth_per_s
        self._inertia = np.array(robot.body.inertia_kg_m2)
        x, y, z = robot.body.inertia_kg_m2
        self._couples = np.array([y - z, z - x, x - y])
        self._model, self._file = robot.rotor_model, robot.thrust_factors
        self._turns, inverse = allocation(robot)[1:], inverse_allocation(robot)
        self._lift, self._from_torque = inverse[:, 0], inverse[:, 1:]
        self._least_n = _LEAST_THRUST * robot.weight_n / len(robot.rotors)
        self._drove: deque[tuple[float, Array]] = deque()
        self.reset()

    def reset(self) -> None:
        """Forget everything: all rotors are as the file says."""
        self.shares: Array = np.ones(len(self._file))
        """(rotors,) Thrust over the file's, 0.3 to 1."""
        self._drove.clear()
        self._rate: Array | None = None
        self._t = -math.inf

    def pause(self) -> None:
        """Keep the estimate, and begin anew with the next rates: the robot stands on something, or was not seen."""
        self._rate = None

    def drove(self, t: float, speed: Array) -> None:
        """Remember that the rotors turn at ``speed`` (rotors,), rad/s, at ``t``, s, which never goes back."""
        self._drove.append((t, self._file * self._model.thrust(speed)))
        while self._drove[0][0] < t - LONGEST_MEMORY_S:
            self._drove.popleft()

    def observe(self, t: float, rate: Sequence[float] | NDArray[np.floating], late_s: float = 0.0) -> None:
        """Process angular rates.

        Args:
            t: When they were measured, s.
            rate: (3,) rad/s, body.
            late_s: By how much later than usual they come, s: what the estimate corrects must be slower than that.
        """
        measured, gap_s = np.asarray(rate, dtype=float), t - self._t
        if math.hypot(*rate) > MOST_RAD_S:
            self.pause()
            return
        before, self._t = self._rate, t
        known = bool(self._drove) and self._drove[0][0] <= t - gap_s
        if before is None or not known or not 0.0 < gap_s <= LONGEST_GAP_S:
            self._rate = measured
            return
        thrust = self._mean_thrust(t - gap_s, t)
        p, q, r = before.tolist()
        # Euler's equations; np.cross takes as long as all else here
        turn = self._turns @ (self.shares * thrust) + self._couples * (q * r, p * r, p * q)
        predicted = before + gap_s * turn / self._inertia
        innovation, pole = measured - predicted, math.exp(-gap_s / (1.0 / self._bandwidth + _LATE * late_s))
        self._rate = predicted + (1.0 - pole * pole) * innovation
        torque = self._inertia * innovation * ((1.0 - pole) ** 2 / gap_s)
        usable = np.maximum(thrust, self._least_n)
        shares = self.shares + (self._from_torque @ torque) / usable
        # a common lift turns nothing: it is chosen so that the strongest rotor is as the file says
        common = float(((1.0 - shares) * usable / self._lift).min())
        self.shares = np.clip(shares + common * self._lift / usable, LEAST, 1.0)

    def _mean_thrust(self, start: float, end: float) -> Array:
        """Return the mean thrusts (rotors,), N, between two times; they change evenly between those remembered."""
        while len(self._drove) > 1 and self._drove[1][0] <= start:
            self._drove.popleft()
        area, (t, thrust) = np.zeros(len(self._file)), self._drove[0]
        for after_t, after in [*list(self._drove)[1:], (math.inf, self._drove[-1][1])]:
            low, high = max(t, start), min(after_t, end)
            if high > low:
                middle = 0.5 * (low + high)
                share = (middle - t) / (after_t - t)
                area += (high - low) * (thrust + share * (after - thrust))
            t, thrust = after_t, after
        return np.asarray(area / (end - start))
