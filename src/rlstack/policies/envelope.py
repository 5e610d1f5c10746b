"""The envelope of a policy file: what the policy was trained for, and what its inputs and outputs must be for that.

It is the entry ``envelope`` of the contract. A departure beyond it is not forbidden, but unproven: ``rlstack verify``
measures how far each one may go, and ``rlstack up deploy`` compares the live topics with both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlstack.errors import UserError
from rlstack.schema import value

ENVELOPE_VERSION = 1
"""Raised when a key changes its meaning; 0: a file without an envelope, of an earlier version or from elsewhere."""

Range = tuple[float, float]

QUANTITIES = {
    "observation_delay_s": "age of every measurement when the policy acts on it, which the policy is not told",
    "command_delay_s": "time from a command to its effect, besides the robot's own lag",
    "control_rate_hz": "rate of the policy's steps",
    "lost_share": "share of messages that do not arrive",
    "noise_scale": "noise of the inputs, as a multiple of that in training",
    "mass_scale": "mass, as a share of the robot file's, as all scales below",
    "inertia_scale": "moments of inertia",
    "arm_scale": "distance of the rotors from the centre",
    "thrust_scale": "thrust of each rotor at a speed",
    "torque_scale": "reaction torque of the rotors",
    "motor_lag_scale": "time constants of the motors",
    "drag_scale": "drag",
    "thrust_gain_scale": "thrust of all rotors together for a command",
    "rate_lag_scale": "lag of the autopilot's rate loop",
    "rate_rejection_scale": "share of disturbing torques that the rate loop cancels",
    "gain_scale": "motion for a command",
    "lag_scale": "time constants of the response to commands",
    "stiffness_scale": "stiffness of the joints' drives",
    "damping_scale": "damping of the joints' drives",
    "friction_scale": "friction of the contacts",
    "payload_kg": "additional mass",
    "force_scale": "constant force, as a share of the weight (one standard deviation)",
    "radius_scale": "size of the footprint",
    "odometry_scale": "distance that odometry reports for a driven one",
    "scan_delay_s": "age of a scan when the policy acts on it",
    "scan_dropout_share": "share of rays without a measurement",
    "people_delay_s": "age of people's positions when the policy acts on them",
    "people_speed_m_s": "speed of people, or of other moving obstacles",
    "obstacle_width_m": "width of obstacles",
    "speed_m_s": "the robot's own speed",
    "object_mass_kg": "mass of the handled object",
    "object_mass_scale": "the same, as a share of the task's",
    "object_friction": "friction of the handled object",
    "object_friction_scale": "the same, as a share of the task's",
    "object_size_m": "size of the handled object",
}
"""Meaning of the quantities of tasks that ship; a task may add others, named with their unit."""

UNITS = {
    "m_s2": "m/s^2",
    "m_s": "m/s",
    "rad_s": "rad/s",
    "hz": "Hz",
    "kg": "kg",
    "rad": "rad",
    "scale": "1",
    "share": "1",
    "friction": "1",
    "m": "m",
    "s": "s",
    "n": "N",
}
"""By the ending of a quantity's name; longer endings first."""

UNPROVEN = ("delay", "rate", "noise", "ages of inputs", "mass", "gains")
"""What nothing is known about without an envelope."""


@dataclass(frozen=True, kw_only=True)
class ScanUse:
    """What the graph looks at of a scan, and what each ray without a measurement has to hold: a number for every ray.

    The geometry of the rays is that of the port.
    """

    rays_used: tuple[int, ...] = value(at_least=0)
    """Indices of the rays that the graph looks at; the others do not matter."""
    no_return_m: float = value(unit="m", above=0.0)
    """Of a ray without a return, +Inf in a message, or beyond the lidar's range."""
    too_near_m: float = value(unit="m", at_least=0.0)
    """Of a ray with something too near to measure, -Inf, or below the lidar's range."""
    missing_m: float = value(unit="m", at_least=0.0)
    """Of a ray that was not measured, NaN, without a measured neighbour: blocked."""
    neighbour_rad: float = value(unit="rad", at_least=0.0)
    """A ray that was not measured takes the shorter of its nearest measured neighbours on both sides within this."""


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """What a policy was trained for.

    Without values it states that nothing is known.
    """

    version: int = value(0, at_least=0, at_most=ENVELOPE_VERSION)
    trained: dict[str, Range] = value(dict)
    """Lowest and highest value in training of each quantity that it varied, by a name that ends with the unit, such as
    those of :data:`QUANTITIES`. A quantity that is missing had its nominal value throughout."""
    noise: dict[str, float] = value(dict)
    """Standard deviation of training's noise by input, in the input's unit; of orientations in rad."""
    max_age_s: dict[str, float] = value(dict)
    """Greatest age by input, s: on older values the policy must not act. Goals and paths hold until replaced."""
    extrapolated: tuple[str, ...] = ()
    """Inputs that must be moved on by velocity times age before the policy gets them, such as ``people_position``."""
    scans: dict[str, ScanUse] = value(dict)
    """Use of each scan, by input."""
    conditions: dict[str, float] = value(dict)
    """Starts and limits of the task, SI units in the keys, such as ``tilt_rad``."""
    robot: dict[str, Any] = value(dict)
    """The robot's own numbers that the outputs mean, from its file, such as ``mass_kg`` or gains; empty for a family.
    """
    robot_sha256: str = ""
    """Digest of that robot file, as in verify.json."""

    def __post_init__(self) -> None:
        for name, (low, high) in self.trained.items():
            unit_of(name)
            if low > high:
                raise ValueError(f"trained.{name}: {[low, high]} is not allowed: the lower end must come first.")
        for key, numbers in (("noise", self.noise), ("max_age_s", self.max_age_s)):
            for name, number in numbers.items():
                if number < 0.0:
                    raise ValueError(f"{key}.{name}: {number:g} is not allowed: must be at least 0.")

    def __bool__(self) -> bool:
        """Whether it states anything beyond the task's conditions."""
        return self.version > 0

    @property
    def shown(self) -> dict[str, Any]:
        """What was trained for as plain data for a table, without empty entries."""
        entries: dict[str, dict[str, Any]] = {
            "trained": {**self.trained},
            "noise": {**self.noise},
            "greatest age, s": {**self.max_age_s},
            "conditions": {**self.conditions},
        }
        return {name: entry for name, entry in entries.items() if entry}

    @property
    def unproven(self) -> str:
        """What nothing is known about, in a sentence; empty if it states something."""
        return "" if self else f"not proven for {', '.join(UNPROVEN)}: the file has no envelope"

    def highest(self, name: str) -> float | None:
        """Return the highest trained value of a quantity; None if training did not vary it."""
        return self.trained[name][1] if name in self.trained else None


def unit_of(name: str) -> str:
    """Return the unit of a quantity by the ending of its name.

    Raises:
        ValueError: The name has no unit.
    """
    for ending, unit in UNITS.items():
        if name == ending or name.endswith(f"_{ending}"):
            return unit
    raise ValueError(f"trained.{name}: the name does not end with a unit: one of {', '.join(UNITS)}.")


def check_envelope(envelope: Envelope, inputs: Sequence[str], aging: Sequence[str], where: str) -> None:
    """Refuse an envelope that names unknown inputs, or lacks an age.

    Args:
        envelope: The envelope.
        inputs: Names of all inputs.
        aging: Names of the inputs that age: all from topics, but goals and paths.
        where: The file's name in errors.

    Raises:
        UserError: Names the key and the input.
    """
    for key in ("noise", "max_age_s", "scans", "extrapolated"):
        for name in getattr(envelope, key):
            if name not in inputs:
                raise UserError(f"{where}: envelope.{key}: '{name}' is no input of this policy ({', '.join(inputs)}).")
    missing = [name for name in aging if name not in envelope.max_age_s]
    if envelope and missing:
        raise UserError(
            f"{where}: envelope.max_age_s: the greatest age of {', '.join(missing)} is missing. Export the policy again"
            " with this rlstack."
        )


def finite_numbers(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested plain data without numbers that are not finite, such as the ends of a joint that turns freely."""

    def kept(item: Any) -> Any:
        if isinstance(item, Mapping):
            return finite_numbers(item)
        if isinstance(item, (list, tuple)):
            return [kept(part) for part in item]
        return None if isinstance(item, float) and not math.isfinite(item) else item

    return {key: kept(item) for key, item in data.items()}
