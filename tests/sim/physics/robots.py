"""What acts on one robot, through the packed parameters and the function that every simulator calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.batch_quadrotor.layout import PARAMETERS, pack_parameters
from rlstack.sim.perturbation import Perturbation
from rlstack.sim.physics.body import Body
from rlstack.sim.physics.loads import loads
from rlstack.sim.physics.models import models_of

Array = NDArray[np.float64]


def parameters(robot: Quadrotor, models: Any) -> dict[str, Array]:
    """Return one robot's parameters by name."""
    row = pack_parameters(robot, Perturbation.none(1), "float64", models)[0]
    return {name: row[where] for name, where in PARAMETERS.items()}


def force_and_torque(
    robot: Quadrotor,
    *,
    position: ArrayLike = (0.0, 0.0, 1e6),
    orientation: ArrayLike = (0.0, 0.0, 0.0, 1.0),
    velocity: ArrayLike = (0.0, 0.0, 0.0),
    speed: float | None = None,
    air: ArrayLike | None = None,
    floor: float = 0.0,
    switches: Mapping[str, bool] | None = None,
) -> tuple[Array, Array]:
    """Return force N in the world and torque N m in the body; the rotors turn as in hover unless said."""
    models = models_of(robot, switches, wind=bool((switches or {}).get("wind")))
    body = Body(*(np.array(v, dtype=float) for v in (position, orientation, velocity, (0.0, 0.0, 0.0))))
    rotors = np.full(len(robot.rotors), robot.hover_speed_rad_s if speed is None else speed)
    moved = None if air is None else np.array(air, dtype=float)
    return loads(body, rotors, None, parameters(robot, models), models, moved, floor)
