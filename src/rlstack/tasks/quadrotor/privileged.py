"""Privileged observations of the critic: each robot's disturbances and departures from its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, pack_parameters
from rlstack.sim.perturbation import Perturbation

_SHOWN = {
    "force": "disturbing force, world",
    "torque": "disturbing torque, base_link",
    "gust_force": "force of the episode's gust, world",
    "mass": "mass",
    "thrust_scale": "thrust of each rotor",
    "time_constants": "motor lag, rising and falling",
    "delay": "delay of commands",
    "loop_lag": "lags of the rate loop, and the share of torques that it cancels",
}
"""Descriptions of the batch simulator's parameters by name."""


@dataclass(frozen=True)
class Privileged:
    """Columns of the simulator's parameter rows, centred on the robot file and scaled by their spread.

    Args:
        names: Names of the k terms in order, as in :data:`rlstack.sim.batch_quadrotor.layout.PARAMETERS`.
        sizes: Columns of each term, without those that the task never varies.
        columns: Indices into a parameter row, one for each column in order.
        offset: The robot file's values, in the units of the parameter rows.
        scale: Reciprocal of the standard deviation of the values that the task draws.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    columns: tuple[int, ...]
    offset: NDArray[np.float32]
    scale: NDArray[np.float32]

    def terms(self, robot: Quadrotor, path: bool) -> list[tuple[str, int, str, str]]:
        """Return name, size, unit and meaning of all that only the critic observes."""
        rows = [("rotor_speed", len(robot.rotors), "-1..1", "true rotor speeds, scaled as actions")]
        for name, size in zip(self.names, self.sizes):
            rows.append((name, size, "spread", f"{_SHOWN[name]}: departure from the file over its spread"))
        return [*rows, ("reference", 3, "m", "where the path will be after the step, world")] if path else rows


def privileged_terms(task: Any, robot: Quadrotor) -> Privileged:
    """Return the critic's terms for the parameters that ``task`` randomises."""
    drawn = pack_parameters(robot, task.sample(np.random.default_rng(0), 4096, robot).perturbation)
    nominal = pack_parameters(robot, Perturbation.none(1))[0]
    spread = drawn.std(axis=0, dtype=np.float64)
    # relative to the value: rounding alone gives a constant column a spread of 1e-7
    varies = spread > 1e-6 * np.abs(nominal)
    chosen = {name: [c for c in range(PARAMETERS[name].start, PARAMETERS[name].stop) if varies[c]] for name in _SHOWN}
    chosen = {name: columns for name, columns in chosen.items() if columns}
    columns = tuple(c for group in chosen.values() for c in group)
    return Privileged(
        names=tuple(chosen),
        sizes=tuple(len(group) for group in chosen.values()),
        columns=columns,
        offset=nominal[list(columns)],
        scale=(1.0 / spread[list(columns)]).astype(np.float32),
    )
