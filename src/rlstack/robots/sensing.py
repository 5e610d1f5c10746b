"""What a robot senses with: how often, how noisy, and where cameras and lidars sit."""

from __future__ import annotations

from dataclasses import dataclass

from rlstack.schema import value


@dataclass(frozen=True, kw_only=True)
class Sensor:
    """How often a topic comes and how noisy its numbers are (standard deviations)."""

    rate_hz: float = value(unit="Hz", above=0.0)
    position_noise_m: float = value(0.0, unit="m", at_least=0.0)
    orientation_noise_rad: float = value(0.0, unit="rad", at_least=0.0)
    linear_velocity_noise_m_s: float = value(0.0, unit="m/s", at_least=0.0)
    angular_velocity_noise_rad_s: float = value(0.0, unit="rad/s", at_least=0.0)
    linear_acceleration_noise_m_s2: float = value(0.0, unit="m/s^2", at_least=0.0)
