"""A policy as C99 for small processors: one header and one source, without allocation or a library but math.h.

The graph of a fixed policy (``rlstack.policies.fixed_policy``) is lowered to steps on views of flat buffers (``lower``,
with ``layout`` for what only rearranges), its scratch memory planned (``memory_plan``) and written by one function for
each operator (``operators``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlstack.files import write_atomically
from rlstack.policies.c99.lower import lower
from rlstack.policies.c99.names import identifier
from rlstack.policies.c99.operators import OPERATORS
from rlstack.policies.c99.program import BYTES
from rlstack.policies.c99.source import header, source
from rlstack.policies.fixed_policy import fixed_policy
from rlstack.robots import RobotSpec


@dataclass(frozen=True)
class C99:
    """A written policy and what it takes."""

    header: Path
    source: Path
    constant_bytes: int
    """Weights and other constants, in flash."""
    state_bytes: int
    """Recurrent state, in RAM."""
    scratch_bytes: int
    """Scratch memory of a step, in RAM."""
    multiply_adds: int
    """Of the matrix products in a step."""


def write_c99(
    path: str | Path, folder: Path, *, robot: RobotSpec | None = None, sizes: Mapping[str, int] | None = None
) -> C99:
    """Write a policy file as ``NAME.h`` and ``NAME.c``, where NAME is that of its contract.

    Args:
        path: The policy file, or the name of a released policy.
        folder: Where to; made if it is missing.
        robot: The robot that it is for; a policy for a family needs one.
        sizes: Size of each axis that may differ between calls, such as ``points``.

    Raises:
        UserError: The policy is refused, an operator cannot be written as C, or a file cannot be written.
    """
    policy = fixed_policy(path, robot, sizes or {})
    name = identifier(policy.contract.name)
    program = lower(policy.graph, policy.contract, policy.where)
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / f"{name}.h", folder / f"{name}.c"
    write_atomically(files[0], header(program, policy.contract, name, policy.sha256).encode(), what="the header")
    write_atomically(files[1], source(program, policy.contract, name).encode(), what="the source")
    return C99(
        *files,
        constant_bytes=sum(BYTES[buffer.kind] * buffer.size for buffer in program.constants),
        state_bytes=sum(BYTES[buffer.kind] * buffer.size for buffer in program.states),
        scratch_bytes=sum(BYTES[kind] * size for kind, size in program.scratch.items()),
        multiply_adds=sum(OPERATORS[step.operator].multiply_adds(step) for step in program.steps),
    )
