"""Rate of valid observations, compared with the control rate."""

from __future__ import annotations

from collections import deque

_WINDOW_S = 1.0


class RateMonitor:
    """Counts observations over the last second.

    Args:
        control_rate_hz: The rate at which the policy acts.
        least_share: Share of it below which the rate is too low.
    """

    def __init__(self, control_rate_hz: float, least_share: float) -> None:
        self._expected_hz, self._least_share = control_rate_hz, least_share
        self._times: deque[float] = deque()
        self._since_t: float | None = None

    def observed(self, t: float) -> None:
        """Count an observation at a monotonic time, s."""
        if self._since_t is None:
            self._since_t = t
        self._times.append(t)
        self._forget(t)

    def restart(self) -> None:
        """Start counting anew, after observations were missing or a clock jumped: a rate needs a second to be known."""
        self._times.clear()
        self._since_t = None

    def low(self, t: float) -> str:
        """Return how far the rate is below what is needed, or an empty string; empty in the first second, too."""
        if self._since_t is None or t - self._since_t < _WINDOW_S:
            return ""
        self._forget(t)
        rate_hz = len(self._times) / _WINDOW_S
        if rate_hz >= self._least_share * self._expected_hz:
            return ""
        return f"observations come at {rate_hz:.0f} Hz, and the policy acts at {self._expected_hz:g} Hz"

    def _forget(self, t: float) -> None:
        while self._times and self._times[0] <= t - _WINDOW_S:
            self._times.popleft()
