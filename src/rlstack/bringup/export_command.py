"""`rlstack export POLICY --format c99 | leapp`: a policy file in another form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from rlstack.errors import UserError


@dataclass(frozen=True)
class ExportPolicy:
    """Write a policy file in another form: C99 for small processors, or a LEAPP bundle for Isaac's tools.

    Prints the files, and of C what they take of flash, RAM and multiply-adds.
    """

    policy: tyro.conf.Positional[Path]
    """The policy file, or the name of a released policy (`rlstack policies`)."""
    format: Literal["c99", "leapp"]
    """c99: one header and one source, without allocation or a library but math.h; leapp: YAML, ONNX and the recurrent
    state's initial values."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path(".")
    """Where the files are written."""
    robot: str = ""
    """Robot of a policy for a family: its name or file."""
    size: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=NUMBER")] = ()
    """Size of an axis that may differ between calls, such as points=4."""

    def run(self) -> int:
        """Write the files and print the figures."""
        from rlstack.robots import load_robot

        robot = load_robot(self.robot) if self.robot else None
        if self.format == "leapp":
            from rlstack.policies.leapp import write_leapp

            bundle = write_leapp(self.policy, self.out, robot=robot, sizes=_sizes(self.size))
            print("\n".join(map(str, filter(None, (bundle.description, bundle.graph, bundle.initial_values)))))
            return 0
        from rlstack.policies.c99 import write_c99
        from rlstack.policies.c99.footprint import code_bytes

        written = write_c99(self.policy, self.out, robot=robot, sizes=_sizes(self.size))
        print(f"{written.header}\n{written.source}")
        print(f"constants      {written.constant_bytes:>9,} B of flash")
        if found := code_bytes(written.source):
            print(f"with code      {found[0]:>9,} B of flash, without the C library ({found[1]})")
        else:
            print("with code      unknown: there is no compiler (arm-none-eabi-gcc or gcc)")
        print(f"state          {written.state_bytes:>9,} B of RAM")
        print(f"scratch        {written.scratch_bytes:>9,} B of RAM")
        print(f"multiply-adds  {written.multiply_adds:>9,} per step, of the matrix products")
        return 0


def _sizes(words: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for word in words:
        name, _, number = word.partition("=")
        if not name or not number.isdecimal() or not 1 <= int(number) <= 10_000:
            raise UserError(f"--size {word} is not allowed: give a name and a number of 1 to 10000, such as points=4.")
        found[name] = int(number)
    return found
