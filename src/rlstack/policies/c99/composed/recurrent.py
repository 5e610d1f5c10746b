"""Recurrent operators as matrix products and activations, one set for each step of the sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rlstack.policies.c99.composed.composition import Builder, only, text
from rlstack.policies.c99.operators.operator import Inputs, Unsupported, numbers, required
from rlstack.policies.c99.program import View

_ACTIVATIONS = ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
"""Those without parameters, which are operators, too."""

_DEFAULTS = {"GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"], "RNN": ["Tanh"]}

_States = tuple[View, ...]
_Cell = Callable[[View, _States], _States]
"""From what the input gives all gates (batch, gates * hidden), and the states (batch, hidden), to the next states; the
first one is the output."""


def _gru(direction: _Direction, before: View, states: _States) -> _States:
    build, (hidden,) = direction.build, states
    squash, bend = direction.activations
    update = direction.gate(squash, direction.part(before, 0), direction.recurrent(hidden, 0), direction.shift(0))
    reset = direction.gate(squash, direction.part(before, 1), direction.recurrent(hidden, 1), direction.shift(1))
    if direction.attributes.get("linear_before_reset"):
        kept = build.step("Mul", reset, direction.recurrent(hidden, 2, direction.shift(2)))
        new = direction.gate(bend, direction.part(before, 2), kept, None)
    else:
        kept = direction.recurrent(build.step("Mul", reset, hidden), 2)
        new = direction.gate(bend, direction.part(before, 2), kept, direction.shift(2))
    # (1 - update) * new + update * hidden
    apart = build.step("Sub", hidden, new)
    return (build.step("Add", new, build.step("Mul", update, apart)),)


def _lstm(direction: _Direction, before: View, states: _States) -> _States:
    build, (hidden, cell) = direction.build, states
    squash, bend, out = direction.activations

    def gate(number: int, activation: str, seen: View | None) -> View:
        given, kept = direction.part(before, number), direction.recurrent(hidden, number)
        return direction.gate(activation, given, kept, direction.shift(number), seen)

    forget = gate(2, squash, direction.peephole(2, cell))
    into = gate(0, squash, direction.peephole(0, cell))
    new = gate(3, bend, None)
    after = build.step("Add", build.step("Mul", forget, cell), build.step("Mul", into, new))
    opened = gate(1, squash, direction.peephole(1, after))
    return build.step("Mul", opened, build.step(out, after)), after


def _rnn(direction: _Direction, before: View, states: _States) -> _States:
    (hidden,) = states
    (bend,) = direction.activations
    return (direction.gate(bend, before, direction.recurrent(hidden, 0), direction.shift(0)),)


class _Direction:
    """One direction of a layer: views of its weights."""

    def __init__(
        self, build: Builder, inputs: Inputs, attributes: Mapping[str, Any], number: int, activations: list[str]
    ) -> None:
        self.build, self.attributes, self.activations = build, attributes, activations
        self.hidden = required(inputs, 2).shape[2]
        self._input, self._recurrent = (_chosen(required(inputs, place), number) for place in (1, 2))
        biases = inputs[3] if len(inputs) > 3 else None
        self._biases = None if biases is None else _chosen(biases, number)
        peepholes = inputs[7] if len(inputs) > 7 else None
        self._peepholes = None if peepholes is None else _chosen(peepholes, number)

    def given(self, x: View) -> View:
        """Return what the input (batch, n) gives all gates."""
        shift = None if self._biases is None else self._rows(self._biases, 0, self._input.shape[0])
        return self.build.step("Gemm", x, self._input, shift, transB=1)

    def part(self, before: View, gate: int) -> View:
        """Return what the input gives one gate."""
        return View(before.buffer, before.index[:, gate * self.hidden : (gate + 1) * self.hidden])

    def recurrent(self, hidden: View, gate: int, shift: View | None = None) -> View:
        """Return what the state gives one gate."""
        weights = self._rows(self._recurrent, gate * self.hidden, self.hidden)
        return self.build.step("Gemm", hidden, weights, shift, transB=1)

    def shift(self, gate: int) -> View | None:
        """Return the bias of the state's part of one gate."""
        if self._biases is None:
            return None
        return self._rows(self._biases, self._input.shape[0] + gate * self.hidden, self.hidden)

    def peephole(self, gate: int, cell: View) -> View | None:
        """Return what the cell gives one gate, if it does."""
        if self._peepholes is None:
            return None
        return self.build.step("Mul", cell, self._rows(self._peepholes, gate * self.hidden, self.hidden))

    def gate(self, activation: str, *parts: View | None) -> View:
        """Return the activation of a sum."""
        first, *others = (part for part in parts if part is not None)
        for other in others:
            first = self.build.step("Add", first, other)
        return self.build.step(activation, first)

    @staticmethod
    def _rows(view: View, begin: int, count: int) -> View:
        return View(view.buffer, view.index[begin : begin + count])


def _chosen(view: View, number: int) -> View:
    return View(view.buffer, view.index[number])


def _activations(attributes: Mapping[str, Any], operator: str, directions: int) -> list[str]:
    names = [text(name) for name in attributes.get("activations", _DEFAULTS[operator] * directions)]
    if unknown := [name for name in names if name not in _ACTIVATIONS]:
        raise Unsupported(f"with the activation {unknown[0]}")
    return names


def _layer(operator: str, cell: Callable[[_Direction, View, _States], _States], states: int) -> Any:
    def composed(build: Builder, inputs: Inputs, attributes: Mapping[str, Any]) -> Sequence[View | None]:
        x = required(inputs, 0)
        length, batch, _ = x.shape
        only(attributes, layout=0, input_forget=0)
        if attributes.get("clip"):
            raise Unsupported("with a clip")
        if any(size != length for size in numbers(inputs, 4) or ()):
            raise Unsupported("with sequences of different lengths")
        way = text(attributes.get("direction", "forward"))
        directions = required(inputs, 2).shape[0]
        activations = _activations(attributes, operator, directions)
        size = required(inputs, 2).shape[2]
        zero = build.constant(np.zeros(1, np.float32))
        ended: list[_States] = []
        answers: list[list[View]] = []
        for number in range(directions):
            count = len(activations) // directions
            chosen = activations[number * count : (number + 1) * count]
            direction = _Direction(build, inputs, attributes, number, chosen)
            initial = (inputs[place] if len(inputs) > place else None for place in range(5, 5 + states))
            held = tuple(zero.broadcast((batch, size)) if view is None else _chosen(view, number) for view in initial)
            backwards = way == "reverse" or number == 1
            seen: list[View] = []
            for time in reversed(range(length)) if backwards else range(length):
                held = cell(direction, direction.given(_chosen(x, time)), held)
                seen.append(held[0])
            answers.append(seen[::-1] if backwards else seen)
            ended.append(held)
        outputs = [_stacked(build, [_stacked(build, list(parts)) for parts in zip(*answers)])]
        return [*outputs, *(_stacked(build, [held[state] for held in ended]) for state in range(states))]

    return composed


def _stacked(build: Builder, views: list[View]) -> View:
    """Return tensors along a new first axis."""
    raised = [View(view.buffer, view.index[None]) for view in views]
    return raised[0] if len(raised) == 1 else build.step("Concat", *raised, axis=0)


COMPOSED = {
    "GRU": _layer("GRU", _gru, 1),
    "LSTM": _layer("LSTM", _lstm, 2),
    "RNN": _layer("RNN", _rnn, 1),
}
