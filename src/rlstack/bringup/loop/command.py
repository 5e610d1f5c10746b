"""`rlstack loop`: the command's options."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from rlstack.bringup.flight_options import FlightOptions
from rlstack.errors import UserError


@dataclass(frozen=True)
class Loop(FlightOptions):
    """Fly, record, identify, fine-tune, prove, and fly again; a page tells what each turn changed.

    Each turn flies the proven policy to goals that step and records it, finds the robot's numbers in all flights so
    far, fine-tunes the policy for them, and verifies it. Nothing is flown that has not passed its verification. After
    the last turn the last policy is flown once more. Ctrl-C ends it; the same command with --out goes on.
    """

    recipe: tyro.conf.Positional[str]
    """The recipe that the policy is trained by: a name or a file."""
    robot: str = ""
    """The robot file to begin with, a name or file; default: the recipe's robot."""
    policy: str = ""
    """The verified policy to begin with: a file, or the name of a released one; default: the released policy called as
    the recipe."""
    turns: int = 2
    """Number of turns."""
    seconds: float = 60.0
    """Length of each flight, s of the robot's time."""
    known: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE ...")] = ()
    """What was measured otherwise, as for `rlstack identify`."""
    set: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FIELD=VALUE ...")] = ()
    """Recipe fields for the fine-tuning, such as steps=500000; default: a fifth of the recipe's steps."""
    backends: str = ""
    """Simulators of the verification, separated by commas; default: every installed one."""
    seed: int = 0
    """Seed of the goals and of the simulated sensors' noise."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The loop's folder; one with the same settings goes on. Default: the next free loops/RECIPE-NNN."""

    def run(self) -> int:
        """Do the turns, and print what they changed."""
        from rlstack.bringup.identify_command import known_values
        from rlstack.bringup.loop.page import table
        from rlstack.bringup.loop.stages import RealStages, absolute_policy, first_policy
        from rlstack.bringup.loop.turns import PAGE, SUMMARY, Plan, opened, run_turns
        from rlstack.bringup.robot_group import absolute_file
        from rlstack.robots import load_robot
        from rlstack.training.command import import_torch
        from rlstack.training.recipe import load_recipe
        from rlstack.training.run_folder import new_folder

        if self.turns < 1 or not self.seconds >= 20.0:
            raise UserError("--turns must be at least 1, and --seconds at least 20: shorter flights tell too little.")
        import_torch()
        recipe = load_recipe(self.recipe)
        robot = absolute_file(self.robot or recipe.robot)
        spec, known = load_robot(robot), known_values(self.known)
        policy = absolute_policy(self.policy) if self.policy else first_policy(self.recipe)
        flight = {**self.flight(spec), "seconds": self.seconds}
        proof: dict[str, Any] = {"replay": False}
        if self.backends:
            proof["backends"] = tuple(filter(None, self.backends.split(",")))
        stages = RealStages(self.recipe, flight, known, _words(self.set), proof, self.seed)
        folder = self.out or new_folder(Path(self.recipe).stem, Path("loops"))
        options = {"flight": flight, "known": known, "set": self.set, "backends": self.backends, "seed": self.seed}
        plan = Plan(self.recipe, policy, robot, self.turns, options)
        going_on = opened(folder, plan)
        print(f"{'Going on with' if going_on else 'Loop in'} {folder}: {self.turns} turns", flush=True)
        try:
            proven = run_turns(folder, plan, stages, lambda line: print(line, flush=True))
        except KeyboardInterrupt:
            print(f"Stopped. The same command with --out {folder} goes on.", flush=True)
            return 130
        print(f"\n{table(json.loads((folder / SUMMARY).read_text()))}\nReport: {folder / PAGE}")
        return 0 if proven else 1


def _words(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command line of recipe fields, each ``field=value``.

    Raises:
        UserError: One is not of that form.
    """
    words: list[str] = []
    for given in fields:
        name, equals, value = given.partition("=")
        if not (name and equals and value):
            raise UserError(f"--set {given} is not allowed: give field=value, such as steps=500000.")
        words += [f"--{name}", *value.split(" ")]
    return tuple(words)
