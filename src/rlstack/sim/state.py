"""Checks of what a simulator is given: commands and states as arrays by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlstack.arrays import Array
from rlstack.robots.frames import normalise


def checked_command(command: Mapping[str, ArrayLike], name: str, size: int) -> Array:
    """Return the array ``name`` (size,) of a command as float64.

    Raises:
        ValueError: The command is not exactly one finite array of that shape.
    """
    if set(command) != {name}:
        raise ValueError(f"the command holds {sorted(command)}: must hold '{name}' alone.")
    return _checked(name, command[name], (size,))


def checked_states(state: Mapping[str, ArrayLike], count: int, rotors: int) -> dict[str, Array]:
    """Return all of quadrotors' states as float64 with unit quaternions; what is left out is zero, or level.

    Args:
        state: Arrays (count, width) by name.
        count: How many robots.
        rotors: Of each.

    Raises:
        ValueError: A name is unknown, or an array has the wrong shape, is not finite, or is no rotation.
    """
    sizes = {"position": 3, "orientation": 4, "linear_velocity": 3, "angular_velocity": 3, "rotor_speed": rotors}
    if unknown := sorted(set(state) - set(sizes)):
        raise ValueError(f"the state holds {unknown}: may hold {', '.join(sizes)}.")
    checked = {
        name: _checked(name, state[name], (count, size)) if name in state else np.zeros((count, size))
        for name, size in sizes.items()
    }
    if "orientation" not in state:
        checked["orientation"][:, 3] = 1.0
    checked["orientation"] = normalise(checked["orientation"])
    if not np.isfinite(checked["orientation"]).all():
        raise ValueError("orientation: a zero quaternion is no rotation.")
    return checked


def checked_jointed_state(state: Mapping[str, ArrayLike], joints: int) -> dict[str, Array]:
    """Return what is given of a jointed robot's state as float64: its base's motion and its joints (joints,).

    Raises:
        ValueError: A name is unknown, or an array has the wrong shape, is not finite, or is no rotation.
    """
    shapes = {**dict.fromkeys(("position", "linear_velocity", "angular_velocity"), (3,)), "orientation": (4,)}
    shapes.update(dict.fromkeys(("joint_position", "joint_velocity"), (joints,)))
    if unknown := sorted(set(state) - set(shapes)):
        raise ValueError(f"the state holds {unknown}: may hold {', '.join(shapes)}.")
    checked = {name: _checked(name, array, shapes[name]) for name, array in state.items()}
    if "orientation" in checked:
        checked["orientation"] = normalise(checked["orientation"])
        if not np.isfinite(checked["orientation"]).all():
            raise ValueError("orientation: a zero quaternion is no rotation.")
    return checked


def checked_index(index: Any, count: int) -> int:
    """Return which of ``count`` robots is meant.

    Raises:
        ValueError: There is no such robot.
    """
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)) or not 0 <= index < count:
        raise ValueError(f"index: {index!r} is not allowed: must be a robot's number, from 0 to {count - 1}.")
    return int(index)


def checked_indices(index: ArrayLike, count: int) -> NDArray[np.intp]:
    """Return which of ``count`` robots are meant, (robots,).

    Raises:
        ValueError: There is one that is not, one is there twice, or these are no whole numbers.
    """
    which = np.asarray(index)
    if which.ndim != 1 or (which.size and which.dtype.kind not in "iu"):
        raise ValueError(f"index: {index!r} is not allowed: must be a list of robots' numbers.")
    if which.size and not (which.min() >= 0 and which.max() < count):
        raise ValueError(f"index: {which.tolist()} is not allowed: robots' numbers are from 0 to {count - 1}.")
    if len(np.unique(which)) < len(which):
        raise ValueError(f"index: {which.tolist()} is not allowed: a robot is in it twice.")
    return which.astype(np.intp)


def _checked(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {value!r} is not allowed: must be numbers {shape}.") from error
    if array.shape != shape:
        raise ValueError(f"{name}: the shape {array.shape} is not allowed: must be {shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: {array.tolist()} is not allowed: must be finite.")
    return array
