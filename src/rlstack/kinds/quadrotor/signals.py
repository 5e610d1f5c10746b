"""Quadrotors on the common topics: rotors by name."""

from __future__ import annotations

from rlstack.interfaces.kind_signals import KindSignals, Range
from rlstack.kinds.quadrotor.spec import Quadrotor


class QuadrotorSignals(KindSignals):
    """See :class:`rlstack.interfaces.kind_signals.KindSignals`."""

    def element_names(self, robot: Quadrotor) -> dict[str, tuple[str, ...]]:
        """Return the rotors' names."""
        return {"rotors": robot.rotor_names}

    def command_range(self, robot: Quadrotor, name: str) -> Range | None:
        """Return the range of rotor speeds, rad/s."""
        if name != "rotor_speed":
            return None
        count, model = len(robot.rotors), robot.rotor_model
        return (model.speed_min_rad_s,) * count, (model.speed_max_rad_s,) * count


SIGNALS = QuadrotorSignals()
