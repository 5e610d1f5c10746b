"""Departures of an arm and its scene from the robot file and the task: late signals, other gains, other objects."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from rlstack.arrays import Array, Index
from rlstack.schema import in_order, value

Range = tuple[float, float]

SAME = (1.0, 1.0)
"""Range of a share of the nominal value that does not vary."""


@dataclass(frozen=True)
class ArmDepartures:
    """Departures of N trials, (N,) each.

    Args:
        observation_delay_s: Age of joint states and of the object's pose when the policy gets them, s.
        command_delay_s: Time from a command to its effect, s; before the first one the arm holds its joints.
        stiffness: Stiffness of the arm's drives as a share of the robot file's; a gripper has a controller of its own.
        damping: Their damping, likewise.
        object_mass: Mass of the object, as a share of the trial's.
        object_friction: Its friction, likewise.
        object_noise_m: Standard deviation of white noise on the object's position, on top of the task's, m.
        object_bias_m: Constant error of the object's position along each of x and y, m.
        payload_kg: Mass that the hand carries and the arm's controller does not know, kg.
        gravity_compensation: Share of the arm's weight that its controller compensates; it matters only to robots
            with ``gravity_compensation``.
    """

    observation_delay_s: Array
    command_delay_s: Array
    stiffness: Array
    damping: Array
    object_mass: Array
    object_friction: Array
    object_noise_m: Array
    object_bias_m: Array
    payload_kg: Array
    gravity_compensation: Array

    def __len__(self) -> int:
        return len(self.stiffness)

    def take(self, index: Index) -> ArmDepartures:
        """Return those at ``index``."""
        return ArmDepartures(**{one.name: getattr(self, one.name)[index] for one in fields(self)})

    def put(self, index: Index, other: ArmDepartures) -> None:
        """Replace those at ``index`` by ``other``."""
        for one in fields(self):
            getattr(self, one.name)[index] = getattr(other, one.name)

    @property
    def in_models(self) -> bool:
        """Whether worlds need models of their own."""
        return any((getattr(self, name) != nominal).any() for name, nominal in _IN_MODELS.items())


_IN_MODELS = {"stiffness": 1.0, "damping": 1.0, "payload_kg": 0.0, "gravity_compensation": 1.0}
_NOMINAL = {
    **dict.fromkeys(("observation_delay_s", "command_delay_s", "object_noise_m", "object_bias_m", "payload_kg"), 0.0),
    **dict.fromkeys(("stiffness", "damping", "object_mass", "object_friction", "gravity_compensation"), 1.0),
}
NAMES = tuple(_NOMINAL)
"""Names of the departures."""


def departures(count: int, **changed: float) -> ArmDepartures:
    """Return the departures of N trials: none but those in ``changed``, which are the same in all trials."""
    return ArmDepartures(**{name: np.full(count, float(v)) for name, v in {**_NOMINAL, **changed}.items()})


@dataclass(frozen=True, kw_only=True)
class ArmRandomisation:
    """Randomisation of training beyond that of trials, drawn for each episode; none by default."""

    observation_delay_s: Range = value((0.0, 0.0), unit="s", at_least=0.0)
    """Age of joint states and of the object's pose when the policy gets them."""
    command_delay_s: Range = value((0.0, 0.0), unit="s", at_least=0.0)
    """Time from a command to its effect. The sum of both is at most the larger of both ranges' ends."""
    undelayed: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of the episodes without either delay."""
    gains: Range = value(SAME, unit="1", above=0.0)
    """Stiffness of the arm's drives as a share of the robot file's; its logarithm is uniform. The damping's share is
    between 1 and that."""
    object_mass: Range = value(SAME, unit="1", above=0.0)
    """Mass of the object, as a share of the trial's; its logarithm is uniform."""
    object_friction: Range = value(SAME, unit="1", above=0.0)
    """Friction of the object, likewise."""
    object_noise_m: Range = value((0.0, 0.0), unit="m", at_least=0.0)
    """Standard deviation of white noise on the object's position, on top of the task's."""

    def __post_init__(self) -> None:
        in_order(self, *(one.name for one in fields(ArmRandomisation) if isinstance(one.default, tuple)))

    def draw(self, rng: np.random.Generator, count: int) -> ArmDepartures | None:
        """Draw the departures of N episodes; None: there are none."""
        if not self.ranges() and self.object_noise_m == (0.0, 0.0):
            return None
        late = (rng.random(count) >= self.undelayed).astype(float)
        drawn = departures(count)
        seen_s, sent_s = (rng.uniform(*ends, count) for ends in (self.observation_delay_s, self.command_delay_s))
        most_s = max(self.observation_delay_s[1], self.command_delay_s[1])
        late *= np.minimum(1.0, most_s / np.maximum(seen_s + sent_s, 1e-9))
        drawn.observation_delay_s[:], drawn.command_delay_s[:] = late * seen_s, late * sent_s
        drawn.stiffness[:] = _spread(rng, self.gains, count)
        drawn.damping[:] = drawn.stiffness ** rng.uniform(0.0, 1.0, count)
        drawn.object_mass[:] = _spread(rng, self.object_mass, count)
        drawn.object_friction[:] = _spread(rng, self.object_friction, count)
        drawn.object_noise_m[:] = rng.uniform(*self.object_noise_m, count)
        return drawn

    def ranges(self) -> dict[str, Range]:
        """Return the ranges that differ from the nominal value, for a policy file's envelope."""
        named = {
            "observation_delay_s": (self.observation_delay_s, (0.0, 0.0)),
            "command_delay_s": (self.command_delay_s, (0.0, 0.0)),
            "stiffness_scale": (self.gains, SAME),
            "object_mass_scale": (self.object_mass, SAME),
            "object_friction_scale": (self.object_friction, SAME),
        }
        return {name: ends for name, (ends, nominal) in named.items() if ends != nominal}


def _spread(rng: np.random.Generator, ends: Range, count: int) -> Array:
    """Draw shares (count,) whose logarithm is uniform."""
    low, high = (float(end) for end in np.log(ends))
    return np.exp(rng.uniform(low, high, count))
