"""Parts of a policy's graph: what some of its tensors need, from given ones on."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper


def cut(
    model: onnx.ModelProto, outputs: Sequence[onnx.ValueInfoProto], given: Sequence[onnx.ValueInfoProto] = ()
) -> onnx.ModelProto:
    """Return the part of a model that computes some tensors.

    Args:
        model: Without graphs inside its nodes, as policies are.
        outputs: The tensors to compute, which are the part's outputs.
        given: Tensors that are inputs of the part, so that what computes them is left out.

    Returns:
        A model whose inputs are those of ``model`` and of ``given`` that it needs.
    """
    graph = model.graph
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    given_names = {value.name for value in given}
    pending, found, needed = [value.name for value in outputs], set[str](), set[int]()
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        if name in makers and name not in given_names and makers[name] not in needed:
            needed.add(makers[name])
            pending += [other for other in graph.node[makers[name]].input if other]
    part = helper.make_graph(
        [graph.node[number] for number in sorted(needed)],
        graph.name,
        [value for value in (*graph.input, *given) if value.name in found],
        list(outputs),
        [tensor for tensor in graph.initializer if tensor.name in found],
    )
    made = helper.make_model(part, opset_imports=model.opset_import)
    made.ir_version = model.ir_version
    return made
