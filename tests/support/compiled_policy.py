"""A policy that was written as C, compiled into a shared library and called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from rlstack.policies.c99 import C99
from rlstack.policies.c99.compilers import Compiler, host_compilers
from rlstack.policies.contract import Contract

from .policy_flights import Flight

COMPILERS = host_compilers()

needs_compiler = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler: apt install gcc")


class CompiledPolicy:
    """Has the interface of a loaded policy for one robot.

    Args:
        written: The header and source.
        contract: With fixed sizes.
        options: More options of the compiler.
        compiler: Which one; the first that there is.
    """

    def __init__(
        self, written: C99, contract: Contract, options: tuple[str, ...] = ("-O1",), compiler: Compiler | None = None
    ) -> None:
        chosen = compiler or COMPILERS[0]
        library = written.source.with_suffix(f".{chosen.name}.so")
        words = [*chosen.command, *options, "-shared", "-fPIC", "-o", str(library), str(written.source), "-lm"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self._inputs = [(port.name, int(np.prod(port.sized({}), dtype=int))) for port in contract.inputs]
        self._output = contract.outputs[0]
        loaded = ctypes.CDLL(str(library))
        self._step = getattr(loaded, f"{written.source.stem}_step")
        self._reset = getattr(loaded, f"{written.source.stem}_reset")
        self.state = np.zeros(written.state_bytes + written.scratch_bytes + 64, np.uint8)
        self.reset()

    def reset(self) -> None:
        self._reset(self.state.ctypes.data_as(ctypes.c_void_p))

    def call(self, inputs: Mapping[str, object], command: NDArray[np.float32]) -> int:
        """Return the status of a step that writes ``command``."""
        given = [np.asarray(inputs[name], np.float32).reshape(-1) for name, _ in self._inputs]
        assert [value.size for value in given] == [size for _, size in self._inputs]
        packed = np.concatenate(given)
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (self.state, packed, command)]
        return int(self._step(*pointers))

    def step(self, inputs: Mapping[str, object]) -> NDArray[np.float32]:
        """Return the command of a step that must succeed."""
        command = np.zeros(self._output.sized({}), np.float32)
        assert self.call(inputs, command) == 0
        return command

    def flown(self, flight: Flight) -> NDArray[np.float32]:
        """Return the commands (steps, size) along a flight."""
        commands = []
        for anew, inputs in flight.steps():
            if anew:
                self.reset()
            commands.append(self.step(inputs).reshape(-1))
        return np.stack(commands)
