"""Rays through a PyBullet world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.sim.backends.pybullet.server import EVERYTHING, SEEN, WORLD, Server

_AT_ONCE = 16000
"""Below PyBullet's MAX_RAY_INTERSECTION_BATCH_SIZE, 16384; of so many it answers for all but the last."""
_PAST_M = 1e-3
"""How far behind a surface of the robot itself its ray goes on; from inside, PyBullet does not see the surface."""
_SURFACES = 100
"""Of the robot itself, that a ray may pass: it goes on as long as there are any, but not for ever along one."""


def cast(server: Server, own: int, isolated: bool, origins: Array, directions: Array, far_m: float) -> Array:
    """Return how far rays go, m; see :meth:`rlstack.sim.engine.Engine.cast`.

    Args:
        server: Whose world.
        own: The robot's body, which is not hit.
        isolated: Whether other robots are not, either.
        origins: (R, 3) m.
        directions: (R, 3), unit.
        far_m: How far they go.
    """
    mask = SEEN | (WORLD if isolated else EVERYTHING)
    reach = np.full(len(origins), np.inf)
    passed = np.zeros(len(origins))  # of each ray, m
    going = np.arange(len(origins))
    for _ in range(_SURFACES):
        starts = origins[going] + passed[going, None] * directions[going]
        ends = origins[going] + far_m * directions[going]
        body, share = _first(server, starts, ends, mask)
        length = passed[going] + share * (far_m - passed[going])
        hit, mine = body >= 0, body == own
        reach[going[hit & ~mine]] = length[hit & ~mine]
        passed[going[mine]] = length[mine] + _PAST_M
        going = going[mine & (length + _PAST_M < far_m)]
        if not len(going):
            break
    return reach


def _first(server: Server, starts: Array, ends: Array, mask: int) -> tuple[NDArray[np.int64], Array]:
    """Return what each ray meets first, -1 for nothing, and after what share of its way."""
    bodies: list[int] = []
    shares: list[float] = []
    for first in range(0, len(starts), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        hits = server.bullet.rayTestBatch(
            starts[some].tolist(),
            ends[some].tolist(),
            numThreads=1,  # for more it would start a pool of threads
            collisionFilterMask=mask,
            physicsClientId=server.client,
        )
        bodies += [hit[0] for hit in hits]
        shares += [hit[2] for hit in hits]
    return np.array(bodies, dtype=np.int64), np.array(shares)
