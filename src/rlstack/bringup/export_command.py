"""`rlstack export POLICY --format c99 | leapp | int8`: a policy file in another form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro

from rlstack.errors import UserError

if TYPE_CHECKING:
    from rlstack.policies import Policy
    from rlstack.robots import RobotSpec


@dataclass(frozen=True)
class ExportPolicy:
    """Write a policy file in another form: C99 for small processors, a LEAPP bundle for Isaac's tools, or 8 bits.

    Prints the files; of C what they take of flash, RAM and multiply-adds, and of 8 bits what that costs.
    """

    policy: tyro.conf.Positional[Path]
    """The policy file, or the name of a released policy (`rlstack policies`)."""
    format: Literal["c99", "leapp", "int8"]
    """c99: one header and one source, without allocation or a library but math.h; leapp: YAML, ONNX and the recurrent
    state's initial values; int8: a policy file with 8-bit weights, to be verified anew."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path(".")
    """Where the files are written."""
    robot: str = ""
    """Robot of a policy for a family: its name or file."""
    size: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=NUMBER")] = ()
    """Size of an axis that may differ between calls, such as points=4; not for int8."""
    episodes: int = 50
    """Trials in which the policy and its int8 file are compared; 0: none."""

    def run(self) -> int:
        """Write the files and print the figures."""
        from rlstack.robots import load_robot

        robot = load_robot(self.robot) if self.robot else None
        if self.format == "int8":
            return self._quantise(robot)
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

    def _quantise(self, robot: RobotSpec | None) -> int:
        from rlstack.policies import load_policy
        from rlstack.policies.int8 import write_int8

        if self.size:
            raise UserError("--size is not allowed with --format int8: its sizes stay as they are.")
        if self.episodes < 0:
            raise UserError(f"--episodes {self.episodes} is not allowed: must be at least 0.")
        policy = load_policy(self.policy, robot=robot)
        if policy.contract.needs_robot and self.episodes:
            raise UserError(f"{policy.path} is for a family of robots: say on which one to try it, with --robot.")
        self.out.mkdir(parents=True, exist_ok=True)
        written = write_int8(self.policy, self.out / f"{policy.contract.name}_int8.onnx")
        before, after = written.bytes_before / 1e6, written.bytes_after / 1e6
        print(written.path)
        print(f"size         {after:.2f} MB, of {before:.2f} MB")
        print(f"8-bit        {written.weights:,} weights, in {written.products} matrix products")
        if self.episodes:
            self._compare(policy, load_policy(written.path, robot=robot), robot)
        print(f"No proof is about this file yet: rlstack verify {written.path}")
        return 0

    def _compare(self, policy: Policy, twin: Policy, robot: RobotSpec | None) -> None:
        from rlstack.robots import load_robot
        from rlstack.verification.twin import compare_twins

        found = compare_twins(policy, twin, robot or load_robot(policy.contract.robot), self.episodes)
        port = policy.contract.outputs[0]
        low, high = port.limits
        worst = int(np.argmax(found.largest / (high - low)))
        share = found.largest[worst] / (high - low)[worst]
        print(
            f"commands     differ by {found.largest[worst]:.2g} {port.unit} at most ({100 * share:.2g}% of the range),"
            f" {found.mean[worst]:.2g} on average, in {found.changed:,} of {found.inputs:,} steps"
        )
        first, second = (100 * share for share in found.success)
        print(f"success      {second:.1f}%, of {first:.1f}% (simulated, {found.episodes} trials)")


def _sizes(words: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for word in words:
        name, _, number = word.partition("=")
        if not name or not number.isdecimal() or not 1 <= int(number) <= 10_000:
            raise UserError(f"--size {word} is not allowed: give a name and a number of 1 to 10000, such as points=4.")
        found[name] = int(number)
    return found
