"""Battery rule of every guard: warns while the charge is low, and is a broken limit once it is critical."""

from __future__ import annotations

import math

from rlstack.guard.config import GuardConfig


class BatteryMonitor:
    """Compares each measured battery state with the limits of low and critical charge.

    The charge counts where it is measured (0 to 1, as ROS defines it), otherwise the voltage of a cell, if the number
    of cells is known. Impossible values count as not measured.

    Args:
        config: Limits; a limit of 0 is never broken.
    """

    def __init__(self, config: GuardConfig) -> None:
        self._config = config
        self._measured, self._limits, self._is_low = "", ("", ""), False
        self._critical_since_t, self._t = math.inf, -math.inf

    def receive(self, t: float, percentage: float, voltage_v: float) -> None:
        """Process a measurement.

        Args:
            t: Monotonic time, s.
            percentage: Charge, 0 to 1; NaN: not measured.
            voltage_v: V; NaN: not measured.
        """
        config, cells = self._config, self._config.battery_cells
        if 0.0 <= percentage <= 1.0:
            level, low, critical = percentage, config.battery_low, config.battery_critical
            self._measured = f"the battery is at {level:.0%}"
            self._limits = f"{low:.0%}", f"{critical:.0%}"
        elif cells and 0.0 < voltage_v < math.inf:
            level, low, critical = voltage_v / cells, config.battery_low_v, config.battery_critical_v
            self._measured = f"the battery is at {voltage_v:.2f} V, {level:.2f} V a cell"
            self._limits = f"{low:.2f} V a cell", f"{critical:.2f} V a cell"
        else:
            self._measured, level, low, critical = "", math.inf, 0.0, 0.0
        self._t, self._is_low = t, level < low
        self._critical_since_t = min(self._critical_since_t, t) if level < critical else math.inf

    @property
    def state(self) -> str:
        """The newest measurement as a sentence; empty without one."""
        return self._measured

    @property
    def low(self) -> str:
        """Why the battery is low or critical, by the newest measurement; empty if it is not."""
        if math.isfinite(self._critical_since_t):
            return f"{self._measured}, below the critical {self._limits[1]}: land or stop now and charge it"
        return f"{self._measured}, below {self._limits[0]}: charge it soon" if self._is_low else ""

    @property
    def critical(self) -> str:
        """Why the robot must end its work: critical in all measurements of ``battery_confirm_s``; empty if it need not.

        One measurement is not enough, because the voltage sags under load.
        """
        if self._t - self._critical_since_t < self._config.battery_confirm_s:
            return ""
        return f"{self._measured}, below the critical {self._limits[1]}"

    @property
    def forbids_arming(self) -> str:
        """Why the robot must not be armed, by the newest measurement alone; empty if it may."""
        if not math.isfinite(self._critical_since_t):
            return ""
        return f"{self._measured}, below the critical {self._limits[1]}: charge or change it, then arm"
