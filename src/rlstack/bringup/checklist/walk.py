"""The walk through a checklist: checks what a program can, asks a person for the rest, and records every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlstack.bringup.checklist import checks
from rlstack.bringup.checklist.record import Record, Result
from rlstack.bringup.checklist.steps import MOVING, Checklist, Step

_MOVE = "move"
"""What a person types before anything moves: no accidental Enter does."""


class Ended(Exception):
    """The person has ended the walk."""


class Walk:
    """See the module.

    Args:
        checklist: The checklist.
        bench: The robot.
        record: Its record.
        ask: Shows a prompt and returns what the person types; None: nobody is there, and only what needs none is done.
        say: Shows a line.
    """

    def __init__(
        self,
        checklist: Checklist,
        bench: checks.Bench,
        record: Record,
        ask: Callable[[str], str] | None,
        say: Callable[[str], None] = print,
    ) -> None:
        self._steps, self._bench, self._record, self._ask, self._say = checklist.steps, bench, record, ask, say
        self._context = {"robot_sha256": bench.robot.sha256, "backend": bench.driver}

    def run(self, again: bool = False) -> bool:
        """Walk to the end or to the first step that fails; return whether nothing failed and nothing was left open.

        Args:
            again: Repeat what has passed before.
        """
        opened: list[str] = []
        for number, step in enumerate(self._steps, 1):
            head = f"[{number}/{len(self._steps)}] {step.name}"
            context = self._context_of(step)
            if not again and (date := self._record.done(step, context)):
                self._say(f"{head}: passed on {date}")
                continue
            if step.needs_person and self._ask is None:
                self._say(f"{head}: left to a person")
                continue
            self._say(head)
            result, said, measured = self._do(step)
            self._record.note(step, context, result, said, measured)
            shown = ", ".join(f"{key} {value}" for key, value in measured.items())
            self._say(f"    {result.upper()}{f': {said}' if said else ''}{f' ({shown})' if shown else ''}")
            if result == "failed":
                self._say(f"Stopped. Correct it and run this again: it goes on here. Record: {self._record.file}")
                return False
            if result == "open":
                opened.append(step.name)
        self._say(
            f"Open: {', '.join(opened)}." if opened else "PASSED." if self._ask else "All automatic steps passed."
        )
        self._say(f"Record: {self._record.file}")
        return not opened or self._ask is None

    def _context_of(self, step: Step) -> dict[str, str]:
        return {**self._context, **({"policy_sha256": self._bench.policy_sha256} if step.check == "envelope" else {})}

    def _do(self, step: Step) -> tuple[Result, str, dict[str, Any]]:
        if step.text:
            self._say(f"    {step.text}")
        measured: dict[str, Any] = {}
        if step.check in MOVING and not self._may_move():
            return "open", "skipped", measured
        if step.check == "by_hand" and self._choose("Ready (Enter), or s to skip", {"": True, "s": False}) is False:
            return "open", "skipped", measured
        try:
            measured = checks.run(self._bench, step)
        except checks.CheckFailed as failed:
            return "failed", str(failed), measured
        except checks.NotNow as why:
            return "open", str(why), measured
        if not step.ask:
            return "passed", "", measured
        answer = self._choose(f"{step.ask} [y]es, [n]o, [s]kip", {"y": "yes", "n": "no", "s": ""})
        if not answer:
            return "open", "skipped", measured
        return ("passed" if answer == "yes" else "failed"), f"{step.ask} {answer}", measured

    def _may_move(self) -> bool:
        return bool(self._choose(f"IT WILL MOVE. Type '{_MOVE}' to let it, or s to skip", {_MOVE: True, "s": False}))

    def _choose(self, prompt: str, answers: dict[str, Any]) -> Any:
        assert self._ask is not None
        while True:
            word = self._ask(f"    {prompt}, q to end here: ").strip().lower()
            word = {"yes": "y", "no": "n", "skip": "s"}.get(word, word)
            if word == "q":
                raise Ended
            if word in answers:
                return answers[word]
