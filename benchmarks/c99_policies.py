#!/usr/bin/env python3
"""Write every released policy as C99, and compare its commands with onnxruntime's by each compiler that is here.

    python benchmarks/c99_policies.py [--steps 1000]

Prints a table. Flash and RAM are those of a Cortex-M4 at -Os where arm-none-eabi-gcc works, without the C library's
functions; stack and instructions of a step are measured on QEMU's Cortex-M4 (MPS2 board with AN386, one count for each
instruction; a real processor takes other times). Errors are the largest of a command over all steps, as a share of its
range; the policies' states start anew once. The exit status is 1 if one is more than 1e-5.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.compiled_policy import COMPILERS, CompiledPolicy
from tests.support.cortex_m4 import AVAILABLE, clang_for_cortex_m4, run_on_cortex_m4
from tests.support.policy_flights import RELEASED, choices, fly

from rlstack.policies.c99 import write_c99
from rlstack.policies.c99.compilers import CROSS
from rlstack.policies.c99.footprint import code_bytes

TOLERANCE = 1e-5


def row(name: str, steps: int) -> tuple[dict[str, str], float]:
    """Return the columns of one policy, and its largest error."""
    flight = fly(name, **choices(name), steps=steps)
    with TemporaryDirectory() as folder:
        written = write_c99(name, Path(folder), **choices(name))
        found = code_bytes(written.source)
        columns = {
            "policy": name,
            "flash, B": f"{found[0]:,}" if found else "-",
            "RAM, B": f"{written.state_bytes + written.scratch_bytes:,}",
            "stack, B": "-",
            "multiply-adds": f"{written.multiply_adds:,}",
            "instructions": "-",
        }
        errors = {}
        for compiler in COMPILERS:
            compiled = CompiledPolicy(written, flight.contract, ("-Os",), compiler)
            errors[compiler.name] = flight.error(compiled.flown(flight))
        crosses = [c for c in (CROSS, clang_for_cortex_m4()) if c.works()] if AVAILABLE else []
        for compiler in crosses:
            run = run_on_cortex_m4(written, flight, compiler)
            errors[f"{compiler.name}, Cortex-M4"] = flight.error(run.commands) if not run.statuses.any() else 1.0
            if compiler == CROSS:
                columns |= {"stack, B": f"{run.stack_bytes:,}", "instructions": f"{run.instructions:,.0f}"}
    columns |= {compiler: f"{error:.1e}" for compiler, error in errors.items()}
    return columns, max(errors.values(), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000)
    steps = parser.parse_args().steps
    worst = 0.0
    for number, name in enumerate(RELEASED):
        columns, error = row(name, steps)
        if number == 0:
            print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
        print(f"| {' | '.join(columns.values())} |", flush=True)
        worst = max(worst, error)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
