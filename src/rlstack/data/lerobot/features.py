"""Features of a dataset's frames: vectors with named elements, numbers, booleans and images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlstack.errors import UserError

NUMBERS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""Types of numbers that a feature may have, by NumPy's and LeRobot's common names."""

ACTION = "action"
"""The feature that holds the action in every LeRobot dataset."""

IMAGES = ("image", "video")
"""Types of a camera's feature: PNG images within the table, or videos beside it."""


@dataclass(frozen=True)
class Feature:
    """One entry of a frame.

    Attributes:
        dtype: One of ``NUMBERS``, ``bool``, ``image``, ``video`` or ``string``, which is only read.
        shape: Shape in one frame; (1,) for a single number, (height, width, 3) for an image.
        names: Names of a vector's elements, such as joints, in order.
    """

    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def is_image(self) -> bool:
        """Whether it comes from a camera."""
        return self.dtype in IMAGES

    @property
    def is_video(self) -> bool:
        """Whether its images are a video beside the table."""
        return self.dtype == "video"

    def to_data(self) -> dict[str, Any]:
        """Return its entry of ``meta/info.json``."""
        return {"dtype": self.dtype, "shape": list(self.shape), "names": list(self.names) or None}


def vector(*names: str, dtype: str = "float32") -> Feature:
    """Return the feature of a vector with named elements."""
    return Feature(dtype, (len(names),), names)


def number(dtype: str = "float32") -> Feature:
    """Return the feature of a single number or, with ``bool``, a truth value."""
    return Feature(dtype, (1,))


def image(height: int, width: int) -> Feature:
    """Return the feature of a colour image: uint8 (height, width, 3), red first."""
    return Feature("image", (height, width, 3), ("height", "width", "channels"))


def video(height: int, width: int) -> Feature:
    """Return the feature of a colour camera stored as video: smaller, but lossy."""
    return Feature("video", (height, width, 3), ("height", "width", "channels"))


ALWAYS = {
    "timestamp": Feature("float32", (1,)),
    "frame_index": Feature("int64", (1,)),
    "episode_index": Feature("int64", (1,)),
    "index": Feature("int64", (1,)),
    "task_index": Feature("int64", (1,)),
}
"""Features added to every frame: seconds since the episode's start, and its indices in the dataset."""

_TAKEN = (*ALWAYS, "task", "size")


def from_data(data: Mapping[str, Any]) -> Feature:
    """Return the feature that an entry of ``meta/info.json`` describes."""
    names = data.get("names")
    if isinstance(names, Mapping):  # older recorders name the group too: {"motors": [...]}
        lists = [value for value in names.values() if isinstance(value, list)]
        names = lists[0] if len(lists) == 1 else None
    return Feature(str(data["dtype"]), tuple(int(n) for n in data["shape"]), tuple(map(str, names or ())))


def check_features(features: Mapping[str, Feature]) -> None:
    """Raise ``UserError`` for features that a dataset cannot store."""
    if not features:
        raise UserError("A dataset needs at least one feature, such as observation.state or action.")
    for name, feature in features.items():
        if not name or "/" in name:
            raise UserError(f"'{name}' cannot be a feature's name: it must not be empty, nor contain '/'.")
        if name in _TAKEN:
            raise UserError(f"'{name}' cannot be a feature's name: LeRobot's own feature has it.")
        if feature.is_image:
            if len(feature.shape) != 3 or feature.shape[2] != 3 or min(feature.shape) < 1:
                raise UserError(f"The image '{name}' must have the shape (height, width, 3), not {feature.shape}.")
            if feature.is_video and (feature.shape[0] % 2 or feature.shape[1] % 2):
                raise UserError(f"The video '{name}' must have an even height and width, not {_size(feature)}.")
            continue
        if feature.dtype not in (*NUMBERS, "bool"):
            raise UserError(f"'{name}' cannot be '{feature.dtype}': one of image, video, bool, {', '.join(NUMBERS)}.")
        if len(feature.shape) != 1 or feature.shape[0] < 1:
            raise UserError(f"'{name}' must be a vector of at least one element, not of shape {feature.shape}.")
        if feature.names and len(feature.names) != feature.shape[0]:
            raise UserError(f"'{name}' has {feature.shape[0]} elements but {len(feature.names)} names.")
        if len(set(feature.names)) != len(feature.names):
            raise UserError(f"'{name}' gives two elements the same name: {', '.join(feature.names)}.")


def check_frame(frame: Mapping[str, Any], features: Mapping[str, Feature], number: int) -> dict[str, np.ndarray]:
    """Return a frame's values as arrays of their features' shapes and types.

    Args:
        frame: A value for each of ``features``; a single number may lack its only dimension.
        features: The dataset's features.
        number: Number of the frame in its episode, for errors.

    Raises:
        UserError: A feature is missing, unknown, of another shape or type, or not finite.
    """
    if frame.keys() != features.keys():
        missing = ", ".join(sorted(features.keys() - frame.keys()))
        unknown = ", ".join(sorted(frame.keys() - features.keys()))
        told = [f"lacks {missing}"] * bool(missing) + [f"has {unknown}, which the dataset lacks"] * bool(unknown)
        raise UserError(f"Frame {number} {' and '.join(told)}: give a value for each of the dataset's features.")
    arrays = {}
    for name, feature in features.items():
        array = np.asarray(frame[name])
        if feature.shape == (1,) and array.shape == ():
            array = array[None]
        if array.shape != feature.shape:
            raise UserError(f"Frame {number}: '{name}' has the shape {array.shape}, the dataset's {feature.shape}.")
        wanted = np.dtype("uint8" if feature.is_image else feature.dtype)
        if not np.can_cast(array.dtype, wanted, "same_kind"):
            raise UserError(f"Frame {number}: '{name}' is {array.dtype}, which the dataset's {wanted} cannot hold.")
        array = array.astype(wanted)
        if wanted.kind == "f" and not np.isfinite(array).all():
            raise UserError(f"Frame {number}: '{name}' is not finite: {array.tolist()}.")
        arrays[name] = array
    return arrays


def check_fits(
    held: tuple[str | None, float, Mapping[str, Feature]],
    wanted: tuple[str | None, float, Mapping[str, Feature]],
    where: str,
    *,
    all_of_it: bool = False,
) -> None:
    """Raise ``UserError`` for a dataset whose robot, rate, cameras or other features differ from the required ones.

    Args:
        held: The dataset's robot, frames per second and features.
        wanted: The required robot, frames per second and features.
        where: The dataset's name in errors.
        all_of_it: Whether it must have no further features, as for appending to it.
    """
    (robot, rate, features), (robot_wanted, rate_wanted, features_wanted) = held, wanted
    if robot != robot_wanted:
        raise UserError(f"{where} was recorded with the robot '{robot}', not '{robot_wanted}': it does not fit.")
    if abs(rate - rate_wanted) > 1e-9 * abs(rate):
        raise UserError(f"{where} was recorded at {rate:g} Hz, not {rate_wanted:g} Hz: it does not fit.")
    by_camera_first = sorted(features_wanted, key=lambda name: not features_wanted[name].is_image)
    for name in by_camera_first:
        kind = "camera" if features_wanted[name].is_image else "feature"
        if name not in features:
            known = ", ".join(n for n in features if features[n].is_image == features_wanted[name].is_image) or "none"
            raise UserError(f"{where} has no {kind} '{name}'; of that kind it has: {known}.")
        if told := _difference(features[name], features_wanted[name]):
            raise UserError(f"{where}: its {kind} '{name}' {told}: it does not fit.")
    if all_of_it and (more := [name for name in features if name not in features_wanted]):
        kind = "camera" if features[more[0]].is_image else "feature"
        raise UserError(f"{where} has the {kind} '{more[0]}' too: each frame that is added must have it.")


def _difference(held: Feature, wanted: Feature) -> str:
    if held.is_image and wanted.is_image:  # as video or PNG
        return "" if held.shape == wanted.shape else f"is {_size(held)}, not {_size(wanted)}"
    if held.dtype != wanted.dtype:
        return f"is {held.dtype}, not {wanted.dtype}"
    if held.names and wanted.names and held.names != wanted.names:
        return f"has the elements {', '.join(held.names)}, not {', '.join(wanted.names)}"
    if held.shape != wanted.shape:
        return f"has the shape {held.shape}, not {wanted.shape}"
    return ""


def _size(feature: Feature) -> str:
    return f"{feature.shape[1]} x {feature.shape[0]} pixels"
