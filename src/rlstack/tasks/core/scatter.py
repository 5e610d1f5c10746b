"""Random places of things that are apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError

_TRIES = 400


def scatter(
    draw: Callable[[NDArray[np.intp]], Array],
    allowed: Callable[[NDArray[np.intp], Array], NDArray[np.bool_]],
    count: int,
    apart_m: float,
) -> Array:
    """Return positions (count, things, 3) m that are apart and otherwise allowed.

    Args:
        draw: Returns random positions (n, things, 3) for the trials at indices (n,).
        allowed: Returns (n,) whether positions (n, things, 3) of the trials at indices (n,) are allowed.
        count: Number of trials.
        apart_m: Least distance between the centres of two things, seen from above.

    Raises:
        UserError: The region is too small.
    """
    left = np.arange(count)
    found = draw(left)
    for _ in range(_TRIES):
        tried = found[left]
        away = np.linalg.norm(tried[:, :, None, :2] - tried[:, None, :, :2], axis=-1)
        pairs = np.triu_indices(tried.shape[1], 1)
        good = (away[:, pairs[0], pairs[1]] >= apart_m).all(axis=1) & allowed(left, tried)
        left = left[~good]
        if not len(left):
            return found
        found[left] = draw(left)
    raise UserError(
        f"The region is too small for {found.shape[1]} things that are {apart_m:g} m apart and leave one of them room:"
        " give a larger one, or fewer things."
    )
