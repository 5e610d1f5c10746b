"""Air velocity at each of N robots in one world: wind and the downwash of other robots.

Downwash: far below a vehicle, the wake of all its rotors is a round turbulent jet.

Sources: Bauersfeld, Muller, Ziegler, Coletti and Scaramuzza, "Robotics meets Fluid Dynamics: A Characterization of the
Induced Airflow below a Quadrotor as a Turbulent Jet", RA-L 2024 (arXiv 2403.13321), who measured six quadrotors and
found the classical jet from 2.5 vehicle sizes below on; the jet itself as in Pope, "Turbulent Flows", Cambridge 2000,
section 5.1, with the constants of Hussein, Capp and George, J. Fluid Mech. 258, 1994:

    U(x, r) = U_0(x) / (1 + a (r / x)^2)^2        U_0(x) = B U_J d / x        a = (sqrt(2) - 1) / S^2

at x below the vehicle along its axis and r beside it, B = 5.8 and S = 0.094. The jet carries the vehicle's thrust T as
momentum, T = rho U_J^2 pi d^2 / 4, so U_J d = sqrt(4 T / (pi rho)), without fitted parameters. Nearer than the point
where U_0 equals the speed of the fully developed wake of an ideal rotor, sqrt(2 T / (rho A)), the jet is constant.

The moving air acts on vehicles below through their drag (:mod:`rlstack.sim.physics.loads`). Wakes of several vehicles
add. Valid in hover and slow flight: a wake follows its vehicle at once, straight along its axis. Omitted are the
torque from the wake's gradient over a vehicle and the deflection of wakes by the floor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.arrays import Array
from rlstack.fused import maximum, where
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.sim.physics.body import Vector
from rlstack.sim.physics.models import PhysicsModels
from rlstack.sim.physics.wind import WindField

if TYPE_CHECKING:
    from rlstack.sim.world import Wind

AIR_DENSITY = 1.225
"""kg/m^3: International Standard Atmosphere at sea level."""
DECAY, SPREAD = 5.8, 0.094
"""B and S."""
_SHAPE = (math.sqrt(2.0) - 1.0) / SPREAD**2


def jet_velocity(below: Any, beside_squared: Any, thrust: Any, disk_area: Any) -> Any:
    """Return the air speed along the jet, m/s; 0 above the vehicle.

    Args:
        below: Distance from the vehicle along its axis, in the direction of the air flow, m.
        beside_squared: Square of the distance from the axis, m^2.
        thrust: Thrust of all rotors, at least 0 N.
        disk_area: Disk area of all rotors, m^2.
    """
    # beyond this, the jet's axis is slower than the fully developed wake
    begin = DECAY * np.sqrt(disk_area * (2.0 / math.pi))
    x = maximum(below, begin)
    axis = DECAY * np.sqrt(thrust * (4.0 / (math.pi * AIR_DENSITY))) / x
    slope = 1.0 + _SHAPE * beside_squared / (x * x)
    return where(below > 0.0, axis / (slope * slope), 0.0)


class Downwash:
    """Downwash among N quadrotors.

    Args:
        robots: N quadrotors.
        makers: (N,) which robots produce a wake; None: all.
    """

    def __init__(self, robots: Sequence[Quadrotor], makers: Sequence[bool] | None = None) -> None:
        self._area: Array = np.array([len(r.rotors) * math.pi * r.rotor_model.radius_m**2 for r in robots])[:, None]
        fits = np.array([r.rotor_model.thrust_coefficients for r in robots], dtype=float)
        self._c0, self._c1, self._c2 = np.ascontiguousarray(fits.T)
        self._on = np.ones(len(robots)) if makers is None else np.asarray(makers, dtype=float)

    def velocity(self, position: Vector, orientation: Vector, speed: Vector) -> Array:
        """Return the air velocity at each robot from the others' wakes, (3, N) m/s, world.

        Args:
            position: (3, N) m.
            orientation: (4, N) xyzw, body to world.
            speed: (rotors, N) rad/s.
        """
        thrust = np.maximum(self._c0 + speed * (self._c1 + speed * self._c2), 0.0).sum(axis=0) * self._on
        x, y, z, w = orientation
        axis = np.stack([2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)])
        # robot j (column) relative to robot i (row)
        apart = position[:, None, :] - position[:, :, None]
        below = -(axis[:, :, None] * apart).sum(axis=0)
        beside_squared = np.maximum((apart * apart).sum(axis=0) - below * below, 0.0)
        flow = jet_velocity(below, beside_squared, thrust[:, None], self._area)
        return np.asarray(-(axis @ flow))


class Air:
    """Wind and downwash.

    Args:
        robots: N quadrotors.
        models: Enabled models of each robot.
        wind: Wind of the world; None: no wind.
        isolated: Whether robots are isolated, without downwash between them.
        seed: Seed of the turbulence, at least 0.
    """

    def __init__(
        self,
        robots: Sequence[Quadrotor],
        models: Sequence[PhysicsModels],
        wind: Wind | None = None,
        isolated: bool = False,
        seed: int = 0,
    ) -> None:
        self._wind: WindField | None = None
        if wind is not None and any(m.wind for m in models):
            self._wind = WindField(wind, len(robots), seed)
        self._blown: Array = np.array([[m.wind for m in models]], dtype=float)
        self._washed: Array = np.array([[m.downwash for m in models]], dtype=float)
        shared = len(robots) > 1 and not isolated and any(m.downwash for m in models)
        self._downwash = Downwash(robots) if shared else None

    @property
    def moves(self) -> bool:
        """Whether the air ever moves; otherwise there is nothing to compute."""
        return self._wind is not None or self._downwash is not None

    def reset(self, index: int) -> None:
        """Restart the wind at a robot after its reset."""
        if self._wind is not None:
            self._wind.reset(index)

    def velocity(self, duration_s: float, body: Array, speed: Array) -> Array:
        """Advance time; return the air velocity (3, N) m/s, world frame.

        Args:
            duration_s: Time since the last call, above 0 s.
            body: (13, N) rows: position m, orientation xyzw, velocity m/s (world), rates.
            speed: (rotors, N) rotor speeds, rad/s.
        """
        total: Array = np.zeros((3, body.shape[1]))
        if self._wind is not None:
            total += self._blown * self._wind.advance(duration_s, body[0:3], body[7:10])
        if self._downwash is not None:
            total += self._washed * self._downwash.velocity(body[0:3], body[3:7], speed)
        return total
