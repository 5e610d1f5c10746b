"""Description of one fault; ``faults.py`` has the table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Action = Callable[[Any], None]
"""Called with the :class:`rlstack.bringup.drill.chain.Chain`."""
Check = Callable[[Any], str]

COMMANDER = "commander"
"""The process that commands: the policy's or the planner's."""


def nothing(chain: Any) -> None:
    """Do nothing."""


def no_problem(chain: Any) -> str:
    """Find nothing wrong."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    Args:
        name: For ``--faults``.
        text: What happens.
        answer: Key of its safe answer.
        begin: Begins the fault; called at a random moment of the control period, from the drill's executor.
        ready: Called before, while the robot is still disarmed.
        end: Ends it, once the robot is disarmed again; changes of messages end by themselves.
        check: Returns what else is wrong afterwards, or an empty text.
        watch_s: Shortest time to watch, s of the robot.
        edit: The edit of the kind that it needs, such as ``command.nan``; a kind without it leaves the fault out.
        kills: Processes that it ends, which are started again afterwards.
    """

    name: str
    text: str
    answer: str
    begin: Action
    ready: Action = nothing
    end: Action = nothing
    check: Check = no_problem
    watch_s: float = 0.6
    edit: str = ""
    kills: tuple[str, ...] = ()
