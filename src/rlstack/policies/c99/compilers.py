"""C compilers that are on this machine, and the options that written policies compile under."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-pedantic")
"""What the code compiles under, without a warning."""

CORTEX_M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard")
"""Options of GCC and clang for a Cortex-M4 with its floating-point unit."""

_HEADERS = "#include <float.h>\n#include <math.h>\n#include <stdint.h>\n"


@dataclass(frozen=True)
class Compiler:
    """A compiler that finds the headers that the code needs."""

    name: str
    """Its program."""
    options: tuple[str, ...] = ()
    """Of the processor that it compiles for."""
    size: str = "size"
    """The program that prints the size of what it makes."""

    @property
    def command(self) -> tuple[str, ...]:
        """Program, options of the processor and those of the code."""
        return (self.name, *self.options, *STRICT)

    def works(self) -> bool:
        """Return whether it is there, with the headers: a cross compiler can be without its C library."""
        if shutil.which(self.name) is None:
            return False
        words = [*self.command, "-c", "-x", "c", "-", "-o", os.devnull]
        return subprocess.run(words, input=_HEADERS, capture_output=True, text=True).returncode == 0


CROSS = Compiler("arm-none-eabi-gcc", CORTEX_M4, "arm-none-eabi-size")


def host_compilers() -> list[Compiler]:
    """Return those that compile for this machine: gcc and clang, or another ``cc``."""
    found = [compiler for compiler in (Compiler("gcc"), Compiler("clang")) if compiler.works()]
    return found or [compiler for compiler in (Compiler("cc"),) if compiler.works()]
