"""From an ONNX graph of fixed sizes to a program: shapes, views and steps."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from rlstack.errors import UserError
from rlstack.policies.c99.composed import COMPOSED
from rlstack.policies.c99.layout import LAYOUT
from rlstack.policies.c99.memory_plan import plan
from rlstack.policies.c99.names import identifiers
from rlstack.policies.c99.operators import INTERNAL, OPERATORS
from rlstack.policies.c99.operators.operator import Inputs, Unsupported
from rlstack.policies.c99.program import BOOLEAN, FLOAT, INTEGER, Buffer, Place, Program, Step, View
from rlstack.policies.contract import NEXT_STATE_PREFIX, STATE_PREFIX, Contract


def lower(graph: onnx.GraphProto, contract: Contract, where: str) -> Program:
    """Return the program of a policy's graph, with its memory planned.

    Args:
        graph: Of fixed sizes and a batch of 1.
        contract: Its contract, without named sizes.
        where: Its name in errors.

    Raises:
        UserError: An operator cannot be written as C; names it, its node and why.
    """
    return _Lowering(graph, contract, where).program


class _Lowering:
    def __init__(self, graph: onnx.GraphProto, contract: Contract, where: str) -> None:
        self._where = where
        self._values: dict[str, View] = {}
        self._steps: list[Step] = []
        self._node = ""
        self._constants: dict[tuple[str, bytes], Buffer] = {}
        inputs, states = self._ports(contract)
        for tensor in graph.initializer:
            self._values[tensor.name] = self._constant(numpy_helper.to_array(tensor), tensor.name)
        for node in graph.node:
            self._lower(node)
        outputs = {port.name: self._values[port.name] for port in contract.outputs}
        after = {}
        for state, buffer in zip(contract.state, states):
            view = self._values[NEXT_STATE_PREFIX + state.name]
            # states are written one after another: one that is read from another has to be kept first
            after[buffer.name] = self.step("Copy", view) if view.buffer.place is Place.STATE else view
        self.program = Program(inputs, states, tuple(self._steps), outputs, after)
        plan(self.program)

    def _ports(self, contract: Contract) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
        names = identifiers([*(port.name for port in contract.inputs), *(state.name for state in contract.state)])
        found: list[Buffer] = []
        given = [(port.name, port.sized({}), Place.INPUT) for port in contract.inputs]
        given += [(STATE_PREFIX + state.name, state.shape, Place.STATE) for state in contract.state]
        for (name, shape, place), identifier in zip(given, names):
            found.append(Buffer(FLOAT, math.prod(shape), place, identifier))
            self._values[name] = View.of(found[-1], (1, *shape))
        return tuple(found[: len(contract.inputs)]), tuple(found[len(contract.inputs) :])

    def _constant(self, values: NDArray[Any], name: str) -> View:
        if values.dtype == np.float32:
            kind = FLOAT
        elif values.dtype in (np.int64, np.int32):
            kind = INTEGER
            ends = np.iinfo(np.int32)
            values = np.clip(values, ends.min, ends.max).astype(np.int32)  # beyond are only open ends of slices
        elif values.dtype == np.bool_:
            kind, values = BOOLEAN, values.astype(np.uint8)
        else:
            raise UserError(
                f"{self._where}: the constant '{name}' is of the type {values.dtype}, and C is written for float32,"
                " integers and truth values. Export the policy again with float32."
            )
        key = (kind, values.tobytes())
        if key not in self._constants:
            self._constants[key] = Buffer(
                kind, values.size, Place.CONSTANT, f"constant_{len(self._constants)}", values.reshape(-1)
            )
        return View.of(self._constants[key], values.shape)

    def _lower(self, node: onnx.NodeProto) -> None:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        inputs = tuple(self._values[name] if name else None for name in node.input)
        if node.op_type in LAYOUT and inputs and inputs[0] is not None and self._rearranged(node, inputs, attributes):
            return
        if node.op_type not in {*OPERATORS, *COMPOSED} - INTERNAL or node.domain not in ("", "ai.onnx"):
            self._refuse(node, "")
        self._node = _name(node)
        try:
            if node.op_type in COMPOSED:
                outputs = list(COMPOSED[node.op_type](self, inputs, attributes))
            else:
                outputs = [self.step(node.op_type, *inputs, **attributes)]
        except Unsupported as error:
            self._refuse(node, f" {error}")
        for place, name in enumerate(node.output):
            view = outputs[place] if place < len(outputs) else None
            if name and view is None:
                self._refuse(node, f" with an output {place}")
            if name and view is not None:
                self._values[name] = view

    def _rearranged(self, node: onnx.NodeProto, inputs: Inputs, attributes: dict[str, Any]) -> bool:
        """Make the outputs views of the first input; return whether that is possible."""
        view = inputs[0]
        assert view is not None
        try:
            found = LAYOUT[node.op_type](view.index, inputs, attributes, len(node.output))
            if found and not all(np.may_share_memory(index, view.index) for index in found if index.size):
                self._node = _name(node)
                view = self.step("Copy", view)  # a reshape of elements that are not in order
                found = LAYOUT[node.op_type](view.index, inputs, attributes, len(node.output))
        except Unsupported as error:
            self._refuse(node, f" {error}")
        if found is None:
            return False
        self._values.update({name: View(view.buffer, index) for name, index in zip(node.output, found) if name})
        return True

    def step(self, operator: str, *inputs: View | None, **attributes: Any) -> View:
        """Add a step, as :class:`~rlstack.policies.c99.composed.composition.Builder` says."""
        shape, kind = OPERATORS[operator].output(inputs, attributes)
        out = View.of(Buffer(kind, math.prod(shape), Place.SCRATCH), shape)
        self._steps.append(Step(operator, self._node, inputs, out, attributes))
        return out

    def constant(self, values: NDArray[Any]) -> View:
        """Return a constant, as :class:`~rlstack.policies.c99.composed.composition.Builder` says."""
        return self._constant(values, self._node)

    def _refuse(self, node: onnx.NodeProto, why: str) -> NoReturn:
        known = ", ".join(sorted({*OPERATORS, *LAYOUT, *COMPOSED} - INTERNAL))
        raise UserError(
            f"{self._where}: the operator '{node.op_type}' of node '{_name(node)}'{why} cannot be written as C."
            f" Export a network of these: {known}."
        )


def _name(node: onnx.NodeProto) -> str:
    return node.name or next(iter(node.output), "")
