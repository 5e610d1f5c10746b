"""A policy that was written as C, compiled into a shared library and called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from rlstack.policies.c99 import C99
from rlstack.policies.c99.names import identifiers
from rlstack.policies.contract import Contract

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-pedantic")

COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler: apt install gcc")


class CompiledPolicy:
    """Has the interface of a loaded policy for one robot.

    Args:
        written: The header and source.
        contract: With fixed sizes.
        options: More options of the compiler.
    """

    def __init__(self, written: C99, contract: Contract, options: tuple[str, ...] = ("-O1",)) -> None:
        assert COMPILER is not None
        library = written.source.with_suffix(".so")
        words = [COMPILER, *STRICT, *options, "-shared", "-fPIC", "-o", str(library), str(written.source), "-lm"]
        subprocess.run(words, check=True, capture_output=True, text=True)
        self._inputs = [(port.name, int(np.prod(port.sized({}), dtype=int))) for port in contract.inputs]
        self._name = identifiers([written.source.stem])[0]
        self._output = contract.outputs[0]
        loaded = ctypes.CDLL(str(library))
        self._step = getattr(loaded, f"{self._name}_step")
        self._reset = getattr(loaded, f"{self._name}_reset")
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
