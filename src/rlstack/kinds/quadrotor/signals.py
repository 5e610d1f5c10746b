"""Quadrotors on the common topics: rotors by name, or body rates and collective thrust."""

from __future__ import annotations

from rlstack.interfaces.kind_signals import KindSignals, Range
from rlstack.kinds.quadrotor.spec import Quadrotor


class QuadrotorSignals(KindSignals):
    """See :class:`rlstack.interfaces.kind_signals.KindSignals`."""

    def element_names(self, robot: Quadrotor) -> dict[str, tuple[str, ...]]:
        """Return the rotors' names."""
        return {"rotors": robot.rotor_names}

    def command(self, robot: Quadrotor) -> str:
        """Return rotor speeds, or rates and thrust where an autopilot controls the rates."""
        return "rotor_speed" if robot.rate_loop is None else "rates_thrust"

    def command_range(self, robot: Quadrotor, name: str) -> Range | None:
        """Return the range of rotor speeds, rad/s, or of rates and thrust, rad/s and m/s^2."""
        if name != self.command(robot):
            return None
        if (loop := robot.rate_loop) is not None:
            return (*(-rate for rate in loop.rates_max_rad_s), 0.0), (*loop.rates_max_rad_s, robot.thrust_max_m_s2)
        count, model = len(robot.rotors), robot.rotor_model
        return (model.speed_min_rad_s,) * count, (model.speed_max_rad_s,) * count


SIGNALS = QuadrotorSignals()
