"""What a LeRobot policy does before and after its network: normalisation, from the files beside its weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.errors import UserError
from rlstack.libraries import import_library
from rlstack.yaml_files import read_bytes

Scales = Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]

ACTION_FEATURE = "action"
NO_ARITHMETIC = ("rename_observations_processor", "to_batch_processor", "device_processor")
"""Steps of a processor that leave numbers as they are."""

_MOST_BYTES = 2**24
"""Size of a file of settings or statistics."""


def read_scales(
    folder: Path, config: Mapping[str, Any], hashes: dict[str, str], others: tuple[str, ...] = ()
) -> Scales:
    """Return scale and offset of each input, from its unit to the network's, and of the action, back from it.

    Args:
        folder: The policy's, with its processors.
        config: Its ``config.json``.
        hashes: Gets the SHA-256 of each file that is read.
        others: Steps that are not arithmetic on vectors, and which the caller does.

    Raises:
        UserError: A file is missing or damaged, a step is not known, or a normalisation is.
    """
    found = {}
    for file, features, step in (
        ("policy_preprocessor.json", config["input_features"], "normalizer_processor"),
        ("policy_postprocessor.json", config["output_features"], "unnormalizer_processor"),
    ):
        every = read_json(folder, file, hashes)["steps"]
        known = (*NO_ARITHMETIC, *others, step)
        if other := [str(s["registry_name"]) for s in every if s["registry_name"] not in known]:
            raise UserError(
                f"{folder / file} has the step {other[0]}, which is not read. Fly it from LeRobot's server."
            )
        steps = [s for s in every if s["registry_name"] == step]
        if len(steps) != 1:
            raise UserError(f"{folder / file} has {len(steps)} steps {step}, and must have one.")
        about = steps[0]["config"]
        values = _read_arrays(folder, str(steps[0]["state_file"]), hashes)
        for name, feature in features.items():
            mode = about["norm_map"].get(feature["type"], "IDENTITY")
            where, size = str(folder / file), int(feature["shape"][0])
            middle, half = _range(values, name, mode, float(about["eps"]), size, where)
            if name != ACTION_FEATURE:
                found[name] = (1.0 / half, -middle / half)
            else:
                found[name] = (values[f"{name}.std"] if mode == "MEAN_STD" else half, middle)
    return found


def _range(
    values: Mapping[str, NDArray[np.float32]], name: str, mode: str, epsilon: float, size: int, where: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if mode == "IDENTITY" or not any(key.startswith(f"{name}.") for key in values):
        return np.zeros(size, np.float32), np.ones(size, np.float32)
    if mode == "MEAN_STD":
        return values[f"{name}.mean"], values[f"{name}.std"] + np.float32(epsilon)
    if mode == "MIN_MAX":
        low, high = values[f"{name}.min"], values[f"{name}.max"]
        span = np.where(high == low, np.float32(epsilon), high - low).astype(np.float32)
        return low + np.float32(0.5) * span, np.float32(0.5) * span
    raise UserError(f"{where}: {name} is normalised by {mode}; MEAN_STD, MIN_MAX and IDENTITY are read.")


def read_json(folder: Path, name: str, hashes: dict[str, str]) -> dict[str, Any]:
    """Return the keys of a JSON file of a policy's folder, and note its SHA-256.

    Raises:
        UserError: It is missing, too large, or not JSON.
    """
    data = read_bytes(folder / name, "the policy's", _MOST_BYTES)
    hashes[name] = hashlib.sha256(data).hexdigest()
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{folder / name} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise UserError(f"{folder / name} holds a {type(found).__name__}, not keys.")
    return found


def _read_arrays(folder: Path, name: str, hashes: dict[str, str]) -> dict[str, NDArray[np.float32]]:
    if Path(name).name != name:
        raise UserError(f"{folder}: {name} is not within the folder.")
    load = import_library("safetensors.numpy", "leapp").load
    data = read_bytes(folder / name, "the statistics", _MOST_BYTES)
    hashes[name] = hashlib.sha256(data).hexdigest()
    try:
        return {key: np.asarray(value, np.float32) for key, value in load(data).items()}
    except Exception as error:  # safetensors raises kinds of its own
        raise UserError(f"{folder / name} holds no tensors: {error}. Copy it again.") from error
