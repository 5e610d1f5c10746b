"""Code size of a written policy, by a compiler that is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from rlstack.errors import UserError

CORTEX_M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")

_FOUND = {"arm-none-eabi-gcc": CORTEX_M4, "gcc": (), "clang": (), "cc": ()}
"""Compilers that are looked for, the most telling first, and their options."""

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-pedantic")
"""What the code compiles under."""


def code_bytes(source: Path) -> tuple[int, str] | None:
    """Return the bytes of code and constants at ``-Os`` and the compiler's command; None without a compiler.

    The mathematical functions of the C library are not in it.

    Raises:
        UserError: The compiler refuses the source.
    """
    compiler = next((name for name in _FOUND if shutil.which(name)), None)
    size = shutil.which("arm-none-eabi-size" if compiler == "arm-none-eabi-gcc" else "size")
    if compiler is None or size is None:
        return None
    command = (compiler, *_FOUND[compiler], *STRICT, "-Os")
    with TemporaryDirectory() as folder:
        made = Path(folder) / "policy.o"
        done = subprocess.run([*command, "-c", str(source), "-o", str(made)], capture_output=True, text=True)
        if done.returncode:
            first = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise UserError(f"{compiler} does not compile {source}: {first}. Use a C99 compiler, or report this.")
        table = subprocess.run([size, str(made)], capture_output=True, text=True, check=True).stdout
    text, data = (int(word) for word in table.splitlines()[1].split()[:2])
    return text + data, " ".join((compiler, *_FOUND[compiler], "-Os"))
