"""The turns of the loop: which stage is next, what each left, and what it says of the robot."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlstack import schema
from rlstack.bringup.loop.page import write_page
from rlstack.bringup.loop.stages import Stages
from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.progress import duration

SETTINGS, SUMMARY, PAGE = "settings.json", "loop.json", "loop.html"

_NAMES = ("fly", "identify", "train", "prove")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What a loop is asked to do; it is kept in its folder, and a loop goes on with the same one only.

    Args:
        recipe: The recipe.
        policy: The proven policy to begin with.
        robot: The robot file to begin with.
        turns: Number of turns.
        options: Everything else that decides the results.
    """

    recipe: str
    policy: str
    robot: str
    turns: int
    options: dict[str, Any]


def opened(folder: Path, plan: Plan) -> bool:
    """Make a loop's folder, or find it with the same plan; return whether it goes on.

    More turns than before are allowed.

    Raises:
        UserError: It is the folder of something else, or of a loop with another plan.
    """
    file, wanted = folder / SETTINGS, json.loads(json.dumps(asdict(plan)))
    if folder.exists() and not file.is_file():
        raise UserError(f"--out: {folder} exists already, and is no loop: choose another folder.")
    if file.is_file():
        try:
            known = json.loads(file.read_text())
        except ValueError as error:
            raise UserError(f"{file} is damaged: choose another --out.") from error
        differ = [name for name in wanted if name != "turns" and known.get(name) != wanted[name]]
        if differ:
            told = "; ".join(f"{name} was {known.get(name)}, now {wanted[name]}" for name in differ)
            raise UserError(f"--out: the loop in {folder} has other settings: {told}. Choose another folder.")
    write_json(file, wanted)
    return (folder / "turn-01").exists()


def run_turns(folder: Path, plan: Plan, stages: Stages, say: Say = print) -> bool:
    """Do the turns that are left, and return whether the last policy is proven and was flown.

    Each stage leaves one file when it is complete, so that a loop that was stopped goes on with the next one.

    Raises:
        UserError: A stage refused to go on; what is there is kept.
        KeyboardInterrupt: Ctrl-C.
    """
    return _Turns(folder, plan, stages, say).run()


class _Turns:
    def __init__(self, folder: Path, plan: Plan, stages: Stages, say: Say) -> None:
        self.folder, self.plan, self.stages, self.say = folder, plan, stages, say
        self.turns: list[dict[str, Any]] = []
        self.last: dict[str, Any] | None = None

    def run(self) -> bool:
        policy, robot = self.plan.policy, self.plan.robot
        bags: list[Path] = []
        for number in range(1, self.plan.turns + 1):
            turn = self.folder / f"turn-{number:02d}"
            bags.append(turn / "flight")
            proven = self._turn(number, turn, policy, robot, tuple(bags))
            if proven is None:
                return False
            policy, robot = map(str, proven)
        row: dict[str, Any] = {"turn": self.plan.turns + 1}
        self.last = self._fly(row, self.folder / "last", policy, robot)
        self._report()
        return True

    def _turn(
        self, number: int, turn: Path, policy: str, robot: str, bags: tuple[Path, ...]
    ) -> tuple[Path, Path] | None:
        """Do one turn; return the proven policy and its robot file, or None if the policy did not pass."""
        row: dict[str, Any] = {"turn": number, "policy": policy, "robot": robot}
        self.turns.append(row)
        new, run = turn / f"{Path(self.plan.robot).stem}_{number}.yaml", turn / "run"
        origin = policy if number == 1 else str(Path(policy).parent)

        def identify() -> dict[str, Any]:
            return self.stages.identify(robot, bags, new).figures

        def train() -> dict[str, Any]:
            trained: dict[str, Any] = schema.to_data(self.stages.train(origin, new, run))
            return {**trained, "policy": str(trained["policy"])}

        def prove() -> dict[str, Any]:
            proof: dict[str, Any] = schema.to_data(self.stages.prove(Path(row["train"]["policy"]), new))
            return {**proof, "report": str(proof["report"])}

        self._fly(row, turn, policy, robot)
        self._report()
        self._stage(row, turn, "identify", identify)
        self._report()
        self._stage(row, turn, "train", train)
        proof = self._stage(row, turn, "prove", prove)
        self._report()
        if not proof["passed"]:
            why = "; ".join(proof["reasons"]) or "see its report"
            self.say(f"Turn {number}: the new policy did not pass its proof, and is not flown: {why}.")
            return None
        return Path(row["train"]["policy"]), new

    def _fly(self, row: dict[str, Any], turn: Path, policy: str, robot: str) -> dict[str, Any]:
        return self._stage(
            row, turn, "fly", lambda: asdict(self.stages.fly(policy, robot, turn / "flight", row["turn"]))
        )

    def _stage(self, row: dict[str, Any], turn: Path, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what a stage left, doing it if it is not complete."""
        file = turn / f"{name}.json"
        if not file.is_file():
            left = self._left(name)
            self.say(
                f"Turn {row['turn']} of {self.plan.turns}: {name}{f', about {duration(left)} left' if left else ''}"
            )
            begun = time.monotonic()
            turn.mkdir(parents=True, exist_ok=True)
            done = work()
            write_json(file, {**done, "took_s": round(time.monotonic() - begun, 1)})
        row[name] = json.loads(file.read_text())
        return dict(row[name])

    def _left(self, name: str) -> float:
        """Return an estimate of the time that is left, s, from the stages that were complete; 0: not known."""
        took = {stage: [row[stage]["took_s"] for row in self.turns if stage in row] for stage in _NAMES}
        known = {stage: sum(each) / len(each) for stage, each in took.items() if each}
        if len(known) < len(_NAMES):
            return 0.0
        whole = self.plan.turns - len(self.turns)
        present = _NAMES[_NAMES.index(name) :]
        return sum(known[stage] for stage in present) + whole * sum(known.values()) + known["fly"]

    def _report(self) -> None:
        data = {"plan": asdict(self.plan), "turns": self.turns, "last": self.last}
        write_json(self.folder / SUMMARY, data)
        write_page(self.folder / PAGE, data)
