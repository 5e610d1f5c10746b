"""`rlstack estop`: the emergency stop. It imports as little as possible: the robot moves on until it has started."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from rlstack.bringup.robot_commands.robot_client import (
    ANSWERED_WITHIN_S,
    FOUND_WITHIN_S,
    SETTLED_S,
    RobotClient,
    matching,
    service_call,
    shown,
    within,
)
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.service_call import ServiceCall


def parser() -> argparse.ArgumentParser:
    """Return the parser of its options; reading them with tyro would take longer than the stop."""
    made = argparse.ArgumentParser(
        prog="rlstack estop",
        description="Switch the motors off: of every robot in the ROS domain, or of those named. They stay off until"
        " `rlstack estop --clear` and `rlstack arm`. Exit status: 0 all stopped, 1 a robot did not answer, 2 no robot.",
    )
    made.add_argument(
        *("--robot", "--namespace"),
        metavar="NAME",
        nargs="+",
        default=[],
        help="stop only these: their namespaces, or the last parts of these",
    )
    made.add_argument("--clear", action="store_true", help="allow arming again instead; the motors stay off")
    return made


def estop(arguments: Sequence[str]) -> int:
    """Stop the robots, print each as soon as it has confirmed, and return the exit status.

    Raises:
        UserError: There is no robot, or none of that name.
    """
    options = parser().parse_args(list(arguments))
    with RobotClient() as client:
        return stop(client, options.robot, clear=options.clear)


def stop(client: RobotClient, names: Sequence[str] = (), clear: bool = False) -> int:
    """Stop robots, or clear their emergency stop; return 0 if all have confirmed, otherwise 1.

    Each is called as soon as it is discovered; the others are still looked for then.

    Args:
        client: The node that calls.
        names: The robots; empty: all.
        clear: Allow arming again instead.
    """
    from std_srvs.srv import Trigger

    service = topics.CLEAR_ESTOP if clear else topics.ESTOP
    calls: dict[str, ServiceCall] = {}
    called: dict[str, float] = {}
    done: dict[str, bool] = {}
    begun = time.monotonic()

    def is_over() -> bool:
        now = time.monotonic()
        there = client.guarded()
        wanted = [robot for name in names for robot in matching(name, there)] if names else there
        for robot in wanted:
            if robot not in calls:
                calls[robot], called[robot] = service_call(client.node, Trigger, robot, service), now
        for robot, call in calls.items():
            if robot not in done and call.poll():
                done[robot] = bool(call.response.success)
                print(f"{shown(robot)}: {call.response.message}", flush=True)
        late = all(now - called[robot] > ANSWERED_WITHIN_S for robot in calls if robot not in done)
        if not calls:
            return now - begun > FOUND_WITHIN_S
        if names and all(matching(name, list(calls)) for name in names):
            return late
        return late and now - max(called.values()) > (FOUND_WITHIN_S if names else SETTLED_S)

    client.until(is_over, FOUND_WITHIN_S + 2.0 * ANSWERED_WITHIN_S)
    for robot in sorted(calls.keys() - done.keys()):
        print(
            f"{shown(robot)}: NO ANSWER from {within(robot, service)} within {ANSWERED_WITHIN_S:g} s. Cut its power if"
            " it moves; its robot node stops the motors once the guard's commands stop.",
            file=sys.stderr,
        )
    missing = [name for name in names if not matching(name, list(calls))]
    if missing and calls.keys() | set(client.guarded()):
        print(
            f"No robot '{', '.join(missing)}' is there. Robots: {', '.join(client.guarded())}.",
            file=sys.stderr,
        )
    elif not calls:
        raise UserError(client.nobody())
    if not clear and not names and (there := client.unguarded()):
        print(f"Without a guard, and not stopped: {', '.join(there)}. End their robot nodes.", file=sys.stderr)
    return 0 if calls and not missing and all(done.get(robot) for robot in calls) else 1
