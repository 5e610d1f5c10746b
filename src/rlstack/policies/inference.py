"""Run a policy on numpy arrays in SI units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import ArrayLike, NDArray

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import signals
from rlstack.policies.contract import NEXT_STATE_PREFIX, STATE_PREFIX, Contract
from rlstack.policies.dry_run import repeated
from rlstack.policies.graph_checks import shortened
from rlstack.policies.output_error import PolicyOutputError
from rlstack.robots import robot_names

LEAST_NORM = 1e-3
"""A quaternion shorter than this has no direction; others are normalised in the graph."""

_ALIGNMENT = 16
"""Alignment of buffers in floats: 64 bytes, a cache line and the widest vector load."""


class Policy:
    """A loaded policy for one robot or a batch; ``load_policy`` returns one.

    It is not thread-safe.

    Args:
        contract: Its inputs and outputs.
        session: The graph, see :func:`open_session`.
        path: The file.
        constants: Constant inputs of the graph beside the contract's, one robot's value by name.
        sha256: SHA-256 of the bytes that it was loaded from, as ``sha256sum`` prints it.
    """

    def __init__(
        self,
        contract: Contract,
        session: onnxruntime.InferenceSession,
        path: Path,
        constants: Mapping[str, Array] | None = None,
        sha256: str = "",
    ) -> None:
        self.contract = contract
        self.path = path
        self.sha256 = sha256
        self._session = session
        self._constants = dict(constants or {})
        self._names = {port.name for port in contract.inputs}
        self._optional = {port.name for port in contract.optional}
        self._sizes = dict(signals.DYNAMIC)
        # The input that determines a dynamic size, and its axis, counted from the end.
        self._measured: dict[str, tuple[str, int]] = {}
        for port in contract.inputs:
            for size in port.dynamic:
                self._measured.setdefault(size, (port.name, port.shape.index(size) - len(port.shape)))
        self._needs_robot = contract.needs_robot
        self._limits = {} if self._needs_robot else {port.name: port.limits for port in contract.outputs}
        self._batch = 0
        self.reset()

    @property
    def batch(self) -> int:
        """Batch size: number of robots in a step."""
        return self._batch

    @property
    def constants(self) -> Mapping[str, Array]:
        """Constant inputs of the graph beside the contract's, one robot's value by name."""
        return self._constants

    @property
    def state(self) -> Mapping[str, NDArray[np.float32]]:
        """The recurrent state (batch, \\*shape) by name, which may be written to."""
        return self._state

    def reset(self, batch: int = 1) -> None:
        """Set the recurrent state to zero, and the batch size to ``batch`` robots.

        Raises:
            ValueError: ``batch`` is below 1.
        """
        if batch < 1:
            raise ValueError(f"batch: {batch} is not allowed: must be at least 1.")
        if batch != self._batch:
            self._allocate(batch)
        self._state_memory.fill(0.0)

    def reset_where(self, mask: ArrayLike) -> None:
        """Set the recurrent state of the robots where ``mask``, shape (batch,), is true to zero.

        Raises:
            ValueError: The mask is not boolean or has another shape.
        """
        chosen = np.asarray(mask)
        if chosen.shape != (self._batch,) or chosen.dtype != np.bool_:
            raise ValueError(
                f"mask: {chosen.dtype} of shape {chosen.shape} is not allowed: must be bool of shape {(self._batch,)}."
            )
        for state in self._state.values():
            state[chosen] = 0.0

    def step(self, inputs: Mapping[str, ArrayLike]) -> dict[str, Array]:
        """Return the outputs for ``inputs`` and advance the recurrent state.

        Args:
            inputs: For each input of the contract an array in its unit and frame: of the contract's shape for
                one robot, or of shape (batch, \\*shape) with the batch of the last :meth:`reset`. A dynamic
                axis of the contract may change its size between calls, which binds new memory. Of a policy with
                noise also ``noise``, of the contract's shape; without it, it is 0.

        Returns:
            Each output in its unit, float64, with a leading batch axis if the inputs had one, clipped to the
            contract's range (float32 can round beyond a limit by one part in ten million).

        Raises:
            ValueError: An input is missing, unknown, of the wrong shape or type, not finite, a quaternion of length
                0, or does not increase where it must; the policy is unchanged.
            PolicyOutputError: An output or the next state is not finite; the state was not advanced.
            UserError: The policy is for a family and was loaded without a robot.
        """
        if self._needs_robot:
            known = ", ".join(robot_names(self.contract.robot))
            raise UserError(
                f"{self.path} is a policy for the family '{self.contract.robot}' and was loaded without a robot: load"
                f" it with load_policy(path, robot=load_quadrotor(NAME)), where NAME is one of {known} or a robot file."
            )
        if inputs.keys() != self._names and inputs.keys() - self._optional != self._names:
            self._refuse_names(inputs)
        for size, (name, axis) in self._measured.items():
            shape = np.shape(inputs[name])
            if len(shape) >= -axis and shape[axis] != self._sizes[size]:
                self._resize(size, shape[axis], name)
        batched = self._fill(inputs)
        if not np.isfinite(self._input_memory).all():
            bad = [name for name, (_, _, memory) in self._slots.items() if not np.isfinite(memory).all()]
            raise ValueError(f"{bad[0]}: holds a value that is not finite (or beyond float32).")
        for name, memory in self._quaternions:
            if not ((memory * memory).sum(axis=-1) > LEAST_NORM**2).all():
                raise ValueError(f"{name}: a quaternion of length 0 is not allowed: its length must be 1.")
        for name, before, after, flags in self._increasing:
            if not np.greater(after, before, out=flags).all():
                raise ValueError(f"{name}: must increase from each value to the next (and differ as float32).")
        self._session.run_with_iobinding(self._binding)
        if not np.isfinite(self._output_memory).all():
            bad = [
                name for name, value in {**self._outputs, **self._next_state}.items() if not np.isfinite(value).all()
            ]
            raise PolicyOutputError(
                f"The policy {self.path} returned values that are not finite for {', '.join(bad)};"
                " its recurrent state was not advanced."
            )
        self._state_memory[:] = self._next_state_memory
        result = {}
        for name, value in self._outputs.items():
            low, high = self._limits[name]
            output = value.astype(np.float64)
            np.maximum(output, low, out=output)
            np.minimum(output, high, out=output)
            result[name] = output if batched else output[0]
        return result

    def _fill(self, inputs: Mapping[str, ArrayLike]) -> bool:
        """Copy the inputs into the bound memory; return whether they had a batch axis."""
        batched: bool | None = None
        with np.errstate(over="ignore"):  # beyond float32 becomes infinite and is refused by name
            for name, (shape, batched_shape, memory) in self._slots.items():
                if name in self._optional and name not in inputs:
                    memory.fill(0.0)
                    continue
                array = np.asarray(inputs[name])
                if array.shape == batched_shape:
                    has_batch = True
                elif array.shape == shape and self._batch == 1:
                    has_batch = False
                else:
                    self._refuse_shape(name, array.shape)
                if batched is None:
                    batched = has_batch
                elif batched != has_batch:
                    raise ValueError(f"{name}: give every input with a batch axis, or none.")
                if array.dtype.kind not in "fiub":
                    raise ValueError(f"{name}: {array.dtype} is not allowed: must be real numbers.")
                memory[...] = array
        return bool(batched)

    def _refuse_names(self, inputs: Mapping[str, Any]) -> None:
        missing, extra = sorted(self._names - inputs.keys()), sorted(inputs.keys() - self._names - self._optional)
        problems = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unknown: {', '.join(extra)}"] * bool(extra)
        raise ValueError(f"The policy takes {', '.join(self._slots)}; {'; '.join(problems)}.")

    def _refuse_shape(self, name: str, found: tuple[int, ...]) -> None:
        shape, batched_shape, _ = self._slots[name]
        allowed = f"{shape} or {batched_shape}" if self._batch == 1 else f"{batched_shape}"
        (port,) = (port for port in (*self.contract.inputs, *self.contract.optional) if port.name == name)
        same = [f", with as many {size} as {self._measured[size][0]} has" for size in port.dynamic]
        raise ValueError(
            f"{name}: the shape {found} is not allowed: must be {allowed}{''.join(same)}. For another number of robots"
            " call reset(batch=N)."
        )

    def _allocate(self, batch: int) -> None:
        """Allocate and bind memory for ``batch`` robots once, so that a step allocates only its results."""
        self._batch = batch
        states = {state.name: state.shape for state in self.contract.state}
        self._state_memory, self._state = _arena(states, batch)
        # Outputs and next states share one buffer, so that one check finds any value that is not finite.
        outputs = {port.name: port.sized({}) for port in self.contract.outputs}
        next_size = self._state_memory.size
        self._output_memory = np.zeros(next_size + _arena_size(outputs, batch), dtype=np.float32)
        self._next_state_memory, self._next_state = _arena(states, batch, self._output_memory[:next_size])
        _, self._outputs = _arena(outputs, batch, self._output_memory[next_size:])
        self._allocate_inputs()

    def _allocate_inputs(self) -> None:
        """Allocate memory for the inputs in their present sizes, and bind everything."""
        ports = (*self.contract.inputs, *self.contract.optional)
        shapes = {port.name: port.sized(self._sizes) for port in ports}
        self._input_memory, inputs = _arena(shapes, self._batch)
        self._slots = {name: (shapes[name], (self._batch, *shapes[name]), memory) for name, memory in inputs.items()}
        self._increasing = [
            (name, memory[..., :-1], memory[..., 1:], np.empty(memory[..., 1:].shape, dtype=bool))
            for name, memory in inputs.items()
            if name in signals.INCREASING
        ]
        self._quaternions = [(name, memory) for name, memory in inputs.items() if name.endswith("orientation")]
        # Kept here, because a binding does not own what it binds.
        self._fed = {name: repeated(value, self._batch) for name, value in self._constants.items()}
        self._binding = self._session.io_binding()
        for name, memory in {**inputs, **self._fed}.items():
            if name in self._optional:  # the other way finds no inputs that have a default
                self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(memory))
            else:
                self._binding.bind_cpu_input(name, memory)
        for name, memory in self._state.items():
            self._binding.bind_cpu_input(STATE_PREFIX + name, memory)
        bound = {**self._outputs, **{NEXT_STATE_PREFIX + name: memory for name, memory in self._next_state.items()}}
        for name, memory in bound.items():
            self._binding.bind_output(name, "cpu", 0, np.float32, memory.shape, memory.ctypes.data)

    def _resize(self, size: str, count: int, name: str) -> None:
        """Bind memory for another number of points; the recurrent state stays."""
        least = signals.DYNAMIC[size]
        if count < least:
            raise ValueError(f"{name}: {count} {size} are not allowed: must be at least {least}.")
        self._sizes[size] = count
        self._allocate_inputs()


def open_session(data: bytes, where: str) -> onnxruntime.InferenceSession:
    """Return an onnxruntime session on one CPU thread: small graphs do not gain from more.

    Raises:
        UserError: onnxruntime cannot run the graph.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions share no base but Exception
        raise UserError(
            f"{where}: onnxruntime {onnxruntime.__version__} cannot run the graph: {shortened(error)}."
            " Install a newer onnxruntime, or export the policy again for this one."
        ) from error


def _slot_size(shape: tuple[int, ...], batch: int) -> int:
    return -(-batch * math.prod(shape) // _ALIGNMENT) * _ALIGNMENT


def _arena_size(shapes: Mapping[str, tuple[int, ...]], batch: int) -> int:
    return sum(_slot_size(shape, batch) for shape in shapes.values())


def _arena(
    shapes: Mapping[str, tuple[int, ...]], batch: int, memory: NDArray[np.float32] | None = None
) -> tuple[NDArray[np.float32], dict[str, NDArray[np.float32]]]:
    """Return one zeroed buffer and an array (batch, \\*shape) in it for each name."""
    if memory is None:
        memory = np.zeros(_arena_size(shapes, batch), dtype=np.float32)
    arrays, start = {}, 0
    for name, shape in shapes.items():
        arrays[name] = memory[start : start + batch * math.prod(shape)].reshape(batch, *shape)
        start += _slot_size(shape, batch)
    return memory, arrays
