"""Free the batch axis of a graph that was exported for one robot."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from rlstack.errors import UserError
from rlstack.policies.graph_checks import shortened


def free_batch(model: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """Return the graph with every constant shape for one robot made one for any number.

    Exporters write the batch of 1 into the shapes that ``Reshape`` takes. The first 1 of such a shape becomes "what
    remains", which is the same for one robot. Whether it is right for more has to be tried.

    Raises:
        UserError: Shapes in the graph contradict each other.
    """
    freed = onnx.ModelProto()
    freed.CopyFrom(model)
    try:
        inferred = onnx.shape_inference.infer_shapes(_for_one(model), data_prop=True)
    except Exception as error:  # onnx raises kinds of its own
        raise UserError(f"{where}: shapes in the graph do not fit together: {shortened(error)}.") from error
    known = {entry.name: entry.type.tensor_type.shape for entry in inferred.graph.value_info}
    constants = {tensor.name for tensor in freed.graph.initializer}
    constants |= {node.output[0] for node in freed.graph.node if node.op_type == "Constant"}
    for number, node in enumerate(freed.graph.node):
        shape = known.get(node.output[0])
        if node.op_type != "Reshape" or node.input[1] not in constants or shape is None:
            continue
        sizes = [int(axis.dim_value) if axis.HasField("dim_value") else 0 for axis in shape.dim]
        if 0 in sizes or 1 not in sizes:
            continue
        sizes[sizes.index(1)] = -1
        name = f"free_shape_{number}"
        freed.graph.initializer.append(numpy_helper.from_array(np.array(sizes, np.int64), name))
        node.input[1] = name
    return freed


def _for_one(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph with a batch of 1."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for entry in (*fixed.graph.input, *fixed.graph.output):
        entry.type.tensor_type.shape.dim[0].Clear()
        entry.type.tensor_type.shape.dim[0].dim_value = 1
    return fixed
