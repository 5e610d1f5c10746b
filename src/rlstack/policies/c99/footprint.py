"""Code size of a written policy, by a compiler that is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from rlstack.errors import UserError
from rlstack.policies.c99.compilers import CROSS, Compiler, host_compilers


def code_bytes(source: Path, compiler: Compiler | None = None) -> tuple[int, str] | None:
    """Return the bytes of code and constants at ``-Os`` and the compiler's command; None without a compiler.

    The mathematical functions of the C library are not in it.

    Args:
        source: The written source.
        compiler: Which one; otherwise that for a Cortex-M4 where it works, else one of this machine.

    Raises:
        UserError: The compiler refuses the source.
    """
    if compiler is None:
        compiler = CROSS if CROSS.works() else next(iter(host_compilers()), None)
    if compiler is None or shutil.which(compiler.size) is None:
        return None
    with TemporaryDirectory() as folder:
        made = Path(folder) / "policy.o"
        words = [*compiler.command, "-Os", "-c", str(source), "-o", str(made)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            first = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise UserError(f"{compiler.name} does not compile {source}: {first}. Use a C99 compiler, or report this.")
        table = subprocess.run([compiler.size, str(made)], capture_output=True, text=True, check=True).stdout
    text, data = (int(word) for word in table.splitlines()[1].split()[:2])
    return text + data, " ".join((compiler.name, *compiler.options, "-Os"))
