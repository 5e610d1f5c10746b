"""Run an rlstack policy file with numpy and onnxruntime alone, by the contract that it carries.

A policy file is one ONNX graph; its metadata has one key, ``rlstack``, whose value is the contract as JSON: ``inputs``
and ``outputs`` (name, shape, unit, frame, ``element_names``, ``minimum``, ``maximum``), ``state`` and ``rate_hz``. Each
tensor of the graph has a leading batch axis and is float32. A recurrent state ``x`` goes in as ``state.x``, comes out
as ``next_state.x``, and starts at zero. That is all that this file relies on: it imports nothing of rlstack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

METADATA_KEY, SCHEMA_VERSIONS = "rlstack", (1, 2)
STATE, NEXT_STATE = "state.", "next_state."


class PolicyFile:
    """A policy for N robots.

    Args:
        path: The file.
    """

    def __init__(self, path: str | Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        found = self._session.get_modelmeta().custom_metadata_map
        if METADATA_KEY not in found:
            raise ValueError(f"{path} is no policy file: its metadata has no '{METADATA_KEY}'.")
        self.contract: dict[str, Any] = json.loads(found[METADATA_KEY])
        if self.contract["schema_version"] not in SCHEMA_VERSIONS:
            raise ValueError(f"{path} has the schema {self.contract['schema_version']}, not one of {SCHEMA_VERSIONS}.")
        self.inputs = {port["name"]: port for port in self.contract["inputs"]}
        self.outputs = {port["name"]: port for port in self.contract["outputs"]}
        self.reset()

    @property
    def rate_hz(self) -> float:
        """Steps per second."""
        return float(self.contract["rate_hz"])

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state of ``batch`` robots to zero."""
        self.batch = batch
        self._state = {
            STATE + state["name"]: np.zeros((batch, *state["shape"]), dtype=np.float32)
            for state in self.contract.get("state", ())
        }

    def step(self, signals: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """Return the outputs, (batch, \\*shape) each, and advance the recurrent state.

        Args:
            signals: At least the contract's inputs, (batch, \\*shape) each, in the contract's units and frames.
        """
        fed = dict(self._state)
        for name, port in self.inputs.items():
            if name not in signals:
                raise ValueError(f"the policy needs the input '{name}' ({port['unit']}, {port['frame'] or 'no frame'})")
            array = np.ascontiguousarray(signals[name], dtype=np.float32)
            shape = tuple(port["shape"])
            if array.ndim != len(shape) + 1 or any(
                isinstance(size, int) and size != n for size, n in zip((self.batch, *shape), array.shape)
            ):
                raise ValueError(f"the input '{name}' has the shape {array.shape}, not {(self.batch, *shape)}")
            fed[name] = array
        names = [*self.outputs, *(NEXT_STATE + name[len(STATE) :] for name in self._state)]
        results = dict(zip(names, self._session.run(names, fed)))
        self._state = {name: results[NEXT_STATE + name[len(STATE) :]] for name in self._state}
        return {name: self._clipped(results[name], port) for name, port in self.outputs.items()}

    @staticmethod
    def _clipped(value: NDArray[np.float32], port: Mapping[str, Any]) -> Array:
        """Return an output within the contract's range; a family's policy has none, as the range is the robot's."""
        found: Array = value.astype(np.float64)
        if not port["minimum"]:
            return found
        low, high = (np.reshape(port[end], port["shape"]) for end in ("minimum", "maximum"))
        return np.asarray(np.clip(found, low, high))
