"""Weights of a policy file's graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray


def weights_of(path: Path, prefix: str) -> dict[str, NDArray[np.float32]]:
    """Return the float32 tensors of a policy file whose names begin with ``prefix``, by the rest of their names.

    The exporter keeps the names of the network's parameters, except of those that it has to compute with first.
    """
    graph = onnx.load_model_from_string(path.read_bytes()).graph
    named = [tensor for tensor in graph.initializer if tensor.name.startswith(prefix)]
    arrays = {tensor.name.removeprefix(prefix): onnx.numpy_helper.to_array(tensor) for tensor in named}
    return arrays if all(array.dtype == np.float32 for array in arrays.values()) else {}
