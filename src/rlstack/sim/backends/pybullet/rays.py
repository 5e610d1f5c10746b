"""Ray casting in a PyBullet world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.sim.backends.pybullet.server import EVERYTHING, SEEN, WORLD, Server

_AT_ONCE = 16000
"""Batch size below PyBullet's MAX_RAY_INTERSECTION_BATCH_SIZE, 16384, at which it omits the last ray."""
_PAST_M = 1e-3
"""Distance behind the robot's own surface at which its ray restarts; rays from inside ignore the surface."""
_SURFACES = 100
"""Most own surfaces that a ray may pass, so that it cannot follow one for ever."""


def cast(server: Server, own: int, isolated: bool, origins: Array, directions: Array, far_m: float) -> Array:
    """Return ray lengths, m; see :meth:`rlstack.sim.engine.Engine.cast`.

    Args:
        server: The physics server.
        own: The robot's body, which is not hit.
        isolated: Whether rays pass through other robots, too.
        origins: (R, 3) m.
        directions: (R, 3) unit vectors.
        far_m: Greatest length, m.
    """
    mask = SEEN | (WORLD if isolated else EVERYTHING)
    reach = np.full(len(origins), np.inf)
    passed = np.zeros(len(origins))  # length already passed by each ray, m
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
    """Return the first body that each ray hits, -1 for none, and the share of its length up to the hit."""
    bodies: list[int] = []
    shares: list[float] = []
    for first in range(0, len(starts), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        hits = server.bullet.rayTestBatch(
            starts[some].tolist(),
            ends[some].tolist(),
            numThreads=1,  # more would start a thread pool
            collisionFilterMask=mask,
        )
        bodies += [hit[0] for hit in hits]
        shares += [hit[2] for hit in hits]
    return np.array(bodies, dtype=np.int64), np.array(shares)
