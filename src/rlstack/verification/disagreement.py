"""Compare simulators by open-loop replay of the same commands from the same starts, and find the cause of differences.

The cause is found by elimination: both simulators replay the flights with finer steps, then also with one term of the
physics removed from both. The term whose removal makes the difference vanish is the cause.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.kinds.quadrotor.simulation_vector import quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.vector import engine_of, whole_rate_hz
from rlstack.tasks.quadrotor.scenario import Scenario

LIMIT_M, LIMIT_RAD = 0.01, math.radians(1.0)
"""Limits of agreement after 1 s of open-loop flight."""

_FINER = 4
_GONE = 0.5
"""Largest share of the difference that remains without its cause; other terms leave more."""

_TINY_M = 1e-3
"""Smaller differences count as rounding: single precision alone causes some tenths of a millimetre."""

Change = Callable[[Scenario], Scenario]


@dataclass(frozen=True)
class Disagreement:
    """Difference between two simulators after ``duration_s`` of the same rotor commands.

    Args:
        first: The one simulator.
        second: The other.
        duration_s: Duration of the flights.
        position_m: Largest distance between the two, over all flights and times.
        angle_rad: Largest rotation between the two attitudes.
        episode: The flight with the largest distance.
        cause: The main cause: ``integrator``, ``drag``, ``lag``, ``torque`` or ``thrust``; ``rounding`` below a
            millimetre.
        left: By term, the distance that remains without it, m; ``integrator``: with finer steps.
    """

    first: str
    second: str
    duration_s: float
    position_m: float
    angle_rad: float
    episode: int
    cause: str
    left: Mapping[str, float]

    @property
    def within_limits(self) -> bool:
        """Whether the difference is below :data:`LIMIT_M` and :data:`LIMIT_RAD`."""
        return self.position_m < LIMIT_M and self.angle_rad < LIMIT_RAD

    def sentence(self) -> str:
        """Describe the difference in a sentence."""
        apart = (
            f"{self.first} and {self.second} are at most {_few(1e3 * self.position_m)} mm and"
            f" {_few(np.degrees(self.angle_rad))} degrees apart after {self.duration_s:g} s of the same rotor commands"
            f" (flight {self.episode})"
        )
        if self.cause == "rounding":
            return f"{apart}: no more than rounding."
        shares = ", ".join(f"{name} {_few(1e3 * left)} mm" for name, left in self.left.items())
        return f"{apart}; most of it comes from the {self.cause} (remaining without each: {shares})."

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "left": dict(self.left), "within_limits": self.within_limits}


def disagreements(
    simulators: Sequence[str], robot: Quadrotor, scenario: Scenario, commands: Array, rate_hz: float
) -> list[Disagreement]:
    """Return the disagreement of every pair of simulators, the largest first.

    Args:
        simulators: Names as in :func:`rlstack.kinds.quadrotor.simulation_vector.quadrotor_vector`.
        robot: The robot.
        scenario: N flights, well above any floor.
        commands: (T, N, rotors) rad/s, one per control period.
        rate_hz: Control rate.
    """
    flown: dict[tuple[str, str], dict[str, Array]] = {}
    for name in simulators:
        for term, change in TERMS.items():
            options = {} if term == "everything" else _finer(name, rate_hz)
            flown[name, term] = replay(name, robot, change(scenario), commands, rate_hz, **options)
    found = [_compare(a, b, flown, len(commands) / rate_hz) for a, b in itertools.combinations(simulators, 2)]
    return sorted(found, key=lambda d: d.position_m, reverse=True)


def replay(
    simulator: str, robot: Quadrotor, scenario: Scenario, commands: Array, rate_hz: float, **options: Any
) -> dict[str, Array]:
    """Fly commands (T, N, rotors) without feedback; return ``position`` (T + 1, N, 3) and ``orientation`` (..., 4)."""
    longest_s = float(np.max(scenario.perturbation.delay_s))
    robots = quadrotor_vector(simulator, robot, len(scenario), rate_hz, longest_delay_s=max(longest_s, 0.05), **options)
    parts = []
    try:
        for first in range(0, len(scenario), robots.most):
            some = slice(first, first + robots.most)
            mine = scenario.take(some)
            robots.set_perturbation(mine.perturbation)
            robots.set_state(mine.state)
            states = [robots.state()]
            for command in commands[:, some]:
                robots.step(command)
                states.append(robots.state())
            parts.append({name: np.stack([s[name] for s in states]) for name in ("position", "orientation")})
    finally:
        robots.close()
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


def _compare(
    first: str, second: str, flown: Mapping[tuple[str, str], dict[str, Array]], seconds: float
) -> Disagreement:
    def apart(term: str) -> tuple[Array, Array]:
        a, b = flown[first, term], flown[second, term]
        turn = frames.multiply(frames.inverse(a["orientation"]), b["orientation"])
        angle = 2.0 * np.arctan2(np.linalg.norm(turn[..., :3], axis=-1), np.abs(turn[..., 3]))
        return np.linalg.norm(a["position"] - b["position"], axis=-1), angle

    distance, angle = apart("everything")
    if np.isnan(distance).all():
        raise UserError(f"{first} and {second} cannot be compared: every flight diverged in one of them.")
    left = {term: float(np.nanmax(apart(term)[0], initial=0.0)) for term in TERMS if term != "everything"}
    most = float(np.nanmax(distance))
    terms = {term: value for term, value in left.items() if term != "integrator"}
    least = min(terms, key=lambda term: terms[term])
    if most < _TINY_M:
        cause = "rounding"
    elif left["integrator"] < _GONE * most:
        cause = "integrator"
    else:
        cause = least if terms[least] < _GONE * left["integrator"] else "thrust"
    return Disagreement(
        first=first,
        second=second,
        duration_s=seconds,
        position_m=most,
        angle_rad=float(np.nanmax(angle)),
        episode=int(np.nan_to_num(distance).max(axis=0).argmax()),
        cause=cause,
        left=left,
    )


def _few(number: float) -> str:
    return f"{number:.2g}" if number >= 1e-3 else "under 0.001"


def _finer(simulator: str, rate_hz: float) -> dict[str, Any]:
    engine = engine_of(simulator)
    return {"substeps": _FINER} if engine is None else {"physics_rate_hz": _FINER * whole_rate_hz(engine, rate_hz)}


def _changed(scenario: Scenario, still: bool = False, **scales: float) -> Scenario:
    p = scenario.perturbation
    arrays = {name: np.full_like(getattr(p, name), scale) for name, scale in scales.items()}
    state = dict(scenario.state)
    if still:
        state["angular_velocity"] = np.zeros_like(state["angular_velocity"])
        arrays["torque_n_m"] = np.zeros_like(p.torque_n_m)
    perturbation: Perturbation = replace(p, **arrays)
    return replace(scenario, perturbation=perturbation, state=state)


TERMS: dict[str, Change] = {
    "everything": lambda scenario: scenario,
    "integrator": lambda scenario: scenario,
    "drag": lambda scenario: _changed(scenario, drag_scale=0.0),
    "lag": lambda scenario: _changed(scenario, time_constant_scale=0.1),
    "torque": lambda scenario: _changed(scenario, still=True, arm_scale=0.0, torque_scale=0.0),
}
"""Changes that remove each term from a scenario; a difference that none explains is attributed to the thrust."""
