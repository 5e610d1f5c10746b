"""A written policy on an emulated Cortex-M4: QEMU's MPS2 board with AN386, without an operating system."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rlstack.policies.c99 import C99
from rlstack.policies.c99.compilers import CORTEX_M4, CROSS, Compiler

from ..policy_flights import Flight

EMULATOR = "qemu-system-arm"
TICK_INSTRUCTIONS = 40
"""With one instruction a nanosecond, at the board's clock of 25 MHz."""

_HERE = Path(__file__).parent
_MACHINE = ("-machine", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "none")

AVAILABLE = shutil.which(EMULATOR) is not None and CROSS.works()

needs_cortex_m4 = pytest.mark.skipif(
    not AVAILABLE,
    reason="there is no emulated Cortex-M4: apt install qemu-system-arm gcc-arm-none-eabi libnewlib-arm-none-eabi",
)


@dataclass(frozen=True)
class Run:
    """What a policy did on the board."""

    commands: NDArray[np.float32]
    """(steps, size)"""
    statuses: NDArray[np.int32]
    """(steps,)"""
    stack_bytes: int
    """The most that the stack took, with that of the harness."""
    instructions: float
    """In a step, on average, as QEMU counts them."""
    program_bytes: int
    """Code and constants of the whole program, with the C library and the harness."""


def clang_for_cortex_m4() -> Compiler:
    """Return clang with the headers of the cross compiler's C library; it may not work."""
    asked = subprocess.run(
        [CROSS.name, *CROSS.options, "-E", "-Wp,-v", "-x", "c", "/dev/null"], capture_output=True, text=True
    )
    folders = [Path(line.strip()) for line in asked.stderr.splitlines() if line.startswith(" ")]
    headers = next((str(folder) for folder in folders if (folder / "math.h").is_file()), "")
    target = ("--target=arm-none-eabi", *CORTEX_M4, "-isystem", headers)
    return Compiler(
        "clang", (*target, "-fshort-enums", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"), CROSS.size
    )


def run_on_cortex_m4(written: C99, flight: Flight, compiler: Compiler = CROSS, options: tuple[str, ...] = ()) -> Run:
    """Compile a policy, and run it on a flight's inputs in the folder of its source."""
    folder, name = written.source.parent, written.source.stem
    policy = folder / f"{name}.{compiler.name}.o"
    _done([*compiler.command, "-Os", *options, "-c", str(written.source), "-o", str(policy)])
    program = folder / f"{name}.{compiler.name}.elf"
    defined = [f"-DPOLICY={name}", f'-DPOLICY_HEADER="{written.header}"']
    linked = ["-nostartfiles", "-T", str(_HERE / "layout.ld"), "-o", str(program), "-lm", "-lc", "-lgcc"]
    compiled = [CROSS.name, *CORTEX_M4, "-std=gnu99", "-Wall", "-Werror", "-Os", *defined]
    _done([*compiled, str(_HERE / "harness.c"), str(policy), *linked])
    anew = np.zeros((len(flight.inputs), 1), np.int32)
    anew[list(flight.starts)] = 1
    np.concatenate([anew, flight.inputs.view(np.int32)], axis=1).tofile(folder / "inputs.bin")
    emulator = [EMULATOR, *_MACHINE, "-icount", "shift=0", "-semihosting-config", "enable=on,target=native"]
    _done([*emulator, "-kernel", str(program)], folder)
    rows = np.fromfile(folder / "commands.bin", np.int32).reshape(len(flight.inputs), -1)
    stack, ticks, steps = np.fromfile(folder / "figures.bin", np.uint32).tolist()
    assert steps == len(flight.inputs)
    table = subprocess.run([CROSS.size, str(program)], capture_output=True, text=True, check=True).stdout
    return Run(
        commands=np.ascontiguousarray(rows[:, 1:]).view(np.float32),
        statuses=rows[:, 0],
        stack_bytes=stack,
        instructions=ticks * TICK_INSTRUCTIONS / steps,
        program_bytes=sum(int(word) for word in table.splitlines()[1].split()[:2]),
    )


def _done(words: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout}{done.stderr}"
