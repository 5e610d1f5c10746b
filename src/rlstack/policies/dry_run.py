"""Probe a graph before use: it must run, fit its contract and respect its range for a robot at rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import signals
from rlstack.interfaces.people_messages import NOBODY
from rlstack.policies.contract import NEXT_STATE_PREFIX, STATE_PREFIX, Contract, Port
from rlstack.policies.graph_checks import shortened

_QUATERNION = "quaternion xyzw"

_CASES = ((1, 0, 0.0), (3, 3, 0.5))
"""Batch size, extra points on dynamic axes, and s from the first point of a path to now."""

_CASES_OF_PATHS = ((1, 3, -2.0), (2, 0, 100.0))
"""The same for graphs that follow a path: times before its first point and after its last."""

_LONG_PATH = (1, 254, 0.0)
"""A path that is as long as any that is sent, for which only sizes are computed."""

_Case = tuple[int, int, float]


def dry_run(
    session: onnxruntime.InferenceSession,
    contract: Contract,
    where: str,
    constants: Mapping[str, Array] | None = None,
) -> None:
    """Run the graph for one and for several robots at rest, and check the results against the contract.

    The robot is at rest at its goal: all inputs are zero, except level quaternions, increasing times, empty scans, and
    distant pedestrians.
    A graph with dynamic axes runs with several sizes.

    Args:
        session: The graph.
        contract: Its contract.
        where: Its name in errors.
        constants: Constant inputs beside the contract's, one robot's value by name.

    Raises:
        UserError: It fails, or returns another shape, a value that is not finite, or one beyond the contract's range.
    """
    for case, batch, inputs in _cases(contract, constants or {}, _CASES, _CASES_OF_PATHS):
        _try(session, contract, inputs, batch, where, case)


def input_shapes(
    contract: Contract, constants: Mapping[str, Array] | None = None
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the shape of every input of the graph in each case that :func:`dry_run` tries, and for a long path."""
    cases = _cases(contract, constants or {}, _CASES, (*_CASES_OF_PATHS, _LONG_PATH))
    return {case: {name: value.shape for name, value in inputs.items()} for case, _, inputs in cases}


def _cases(
    contract: Contract, constants: Mapping[str, Array], cases: Sequence[_Case], of_paths: Sequence[_Case]
) -> Iterator[tuple[str, int, dict[str, NDArray[np.float32]]]]:
    """Yield each case's name, its batch, and every input of the graph."""
    named = {size for port in contract.inputs for size in port.dynamic}
    for batch, more, since_s in (*cases, *(of_paths if named else ())):
        sizes = {name: least + more for name, least in signals.DYNAMIC.items() if name in named}
        ports = (*contract.inputs, *contract.optional)
        inputs = {port.name: _at_rest(port, batch, sizes, since_s) for port in ports}
        inputs.update({name: repeated(value, batch) for name, value in constants.items()})
        inputs.update({STATE_PREFIX + s.name: np.zeros((batch, *s.shape), np.float32) for s in contract.state})
        yield " and ".join([f"a batch of {batch}", *(f"{size} {name}" for name, size in sizes.items())]), batch, inputs


def repeated(value: Array, batch: int) -> NDArray[np.float32]:
    """Return float32 (batch, \\*shape) with one robot's ``value`` for each."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(value, np.float32), (batch, *np.shape(value))))


def _try(
    session: onnxruntime.InferenceSession,
    contract: Contract,
    inputs: Mapping[str, NDArray[np.float32]],
    batch: int,
    where: str,
    case: str,
) -> None:
    expected = {port.name: port.sized({}) for port in contract.outputs}
    expected.update({NEXT_STATE_PREFIX + s.name: s.shape for s in contract.state})
    try:
        found = dict(zip(expected, session.run(list(expected), dict(inputs))))
    except Exception as error:  # onnxruntime's exceptions share no base but Exception
        raise UserError(
            f"{where}: the graph fails for {case}: {shortened(error)}. Export it with a dynamic axis for each of these."
        ) from error
    for name, shape in expected.items():
        if found[name].shape != (batch, *shape):
            raise UserError(
                f"{where}: the graph gives {name} in the shape {found[name].shape}, but by the contract it is"
                f" {(batch, *shape)}. Export the policy again so that graph and contract agree."
            )
        if not np.isfinite(found[name]).all():
            raise UserError(
                f"{where}: the graph gives {name} that is not finite for a robot at rest at its goal."
                " Train again, or guard divisions and logarithms in the graph."
            )
    for port in contract.outputs:
        low, high = port.limits
        slack = 1e-6 * np.maximum(np.abs(low), np.abs(high))  # float32 rounding
        if (found[port.name] < low - slack).any() or (found[port.name] > high + slack).any():
            raise UserError(
                f"{where}: the graph gives {port.name} outside the range that its contract promises"
                f" ({low.min():g} to {high.max():g} {port.unit}). Clip the output in the graph and export the"
                " policy again."
            )


def _at_rest(port: Port, batch: int, sizes: Mapping[str, int], since_s: float) -> NDArray[np.float32]:
    value = np.zeros((batch, *port.sized(sizes)), np.float32)
    if port.unit == _QUATERNION:
        value[..., 3] = 1.0
    if port.scan is not None:
        value[:] = port.scan.range_max_m
    if port.name in NOBODY:
        value[:] = NOBODY[port.name][0]
    if port.name in signals.INCREASING:
        value += np.arange(value.shape[-1], dtype=np.float32) - np.float32(since_s)
    return value
