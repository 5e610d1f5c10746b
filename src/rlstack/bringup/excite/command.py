"""`rlstack excite`: the command's options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rlstack.bringup.flight_options import FlightOptions
from rlstack.errors import UserError
from rlstack.text_table import aligned

if TYPE_CHECKING:
    from rlstack.bringup.excite.design import Design


@dataclass(frozen=True)
class Excite(FlightOptions):
    """Fly, or drive, the motion that tells most of a robot's numbers, and record it for `rlstack identify`.

    Motions of goals that step within the fence are drawn and rehearsed in MuJoCo with the policy and the robot file;
    the one whose recording would tell the parameters best is flown through the guard, like any deployment, and
    recorded. It prints how well each number will be told.
    """

    policy: str
    """The verified policy that flies: a file, or the name of a released one."""
    robot: str = ""
    """The robot file: a name or file; default: the robot that the policy was trained for."""
    tell: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Parameters that the motion is to tell, such as inertia_z torque; default: all that a recording can tell."""
    record: Annotated[str, tyro.conf.arg(metavar="FOLDER")] = ""
    """The recording's folder, which must not exist yet; default: bags/ROBOT_excited."""
    preview: bool = False
    """Choose the motion and print what it would tell, without flying it."""
    seconds: float = 20.0
    """Length of the motion, s of the robot's time."""
    candidates: int = 12
    """Number of motions to choose from."""
    known: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = ()
    """What is measured otherwise, as for `rlstack identify`."""
    seed: int = 0
    """Seed of the motions and of the sensors' noise."""

    def run(self) -> int:
        """Choose, print and fly."""
        from rlstack.bringup.excite.design import design
        from rlstack.bringup.identify_command import known_values
        from rlstack.bringup.kind_deployment import deployment_of
        from rlstack.bringup.loop.flight import fly
        from rlstack.bringup.robot_group import absolute_file
        from rlstack.kinds import find_kind
        from rlstack.policies import find_policy, load_policy
        from rlstack.progress import StageLines
        from rlstack.robots import load_robot

        if not self.seconds >= 10.0 or self.candidates < 1:
            raise UserError("--seconds must be at least 10 and --candidates at least 1.")
        policy = find_policy(self.policy).absolute()
        robot = absolute_file(self.robot or load_policy(policy).contract.robot)
        spec, known = load_robot(robot), known_values(self.known)
        find_kind(spec.kind).load("identification").check(spec)
        bag = Path(self.record or f"bags/{spec.name}_excited").expanduser()
        if bag.exists() and not self.preview:
            raise UserError(f"--record: {bag} exists already: give a folder that does not exist yet.")
        flight = self.flight(spec)
        how: dict[str, Any] = {"seconds": self.seconds, "candidates": self.candidates, "seed": self.seed}
        found = design(deployment_of(spec), policy, known, self.tell, progress=StageLines(after_s=5.0), **how)
        print(told(found), flush=True)
        if self.preview:
            return 0
        bag.parent.mkdir(parents=True, exist_ok=True)
        try:
            done = fly(str(policy), robot, bag, seconds=self.seconds, seed=self.seed, steps=found.steps, **flight)
        except KeyboardInterrupt:
            print("Stopped; nothing was recorded.", flush=True)
            return 130
        away = f" The guard took over for {done.took_over_s:.1f} s." if done.took_over_s else ""
        print(f"Recorded {done.seconds:.0f} s in {bag}.{away}")
        print(f"Next: rlstack identify {bag} --robot {self.robot or spec.name}")
        return 0


def told(found: Design) -> str:
    """Return how well a motion tells each parameter, as text, beside the median candidate."""
    rows = [["parameter", "expected, 90%", "at most wanted", "median motion"]]
    for one, half, usual in zip(found.told.parameters, found.told.half_widths, found.usual.half_widths):
        unit = f" {one.unit}" if one.unit else ""
        cells = [
            f"{100.0 * min(float(width), 9.99):.2g}%" if one.logarithmic else f"{width:.2g}{unit}"
            for width in (half, one.needed, usual)
        ]
        rows.append([one.name, *(f"+-{cell}" for cell in cells)])
    lines = aligned(rows)
    safe, count = found.candidates
    lines.append(f"The most telling of {safe} safe motions of {count}.")
    if untold := found.told.untold:
        lines.append(f"It would not tell {', '.join(untold)}: make it longer (--seconds), or ask for those (--tell).")
    return "\n".join(lines)
