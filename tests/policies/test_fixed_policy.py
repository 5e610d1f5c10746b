"""Graphs of fixed sizes, as forms for other runtimes take them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rlstack.policies.fixed_policy import folded


def test_an_operator_that_is_written_as_others_leaves_no_question_for_a_shape() -> None:
    nodes = [helper.make_node("GroupNormalization", ["x", "scale", "shift"], ["y"], num_groups=2)]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 3))]
    constants = [numpy_helper.from_array(np.ones(4, np.float32), name) for name in ("scale", "shift")]
    graph = helper.make_graph(
        nodes, "g", ends, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9)
    operators = {node.op_type for node in folded(model).graph.node}
    assert "ReduceMean" in operators
    assert operators.isdisjoint({"GroupNormalization", "Shape"})
