"""Another policy file for a policy node that steps: loaded and tried beside it, and taken between two steps."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.step_messages import PolicyFile, file_text
from rlstack.policies import Contract, PolicyOutputError
from rlstack.policies.record import Record, read_record
from rlstack.policies.record_check import ADAPTED_FROM, lacks, over_topics
from rlstack.robots import RobotSpec

if TYPE_CHECKING:
    from rlstack.nodes.policy_loop import PolicyLoop
    from rlstack.policies import Policy

POLICY, SHA256 = "policy", "policy_sha256"
"""The node's parameters of its file: a new value of the first while it steps asks for another one."""

_TRIED = 20
"""Steps on the present inputs before it is taken: the first ones allocate memory."""

_SWITCH_S = 2e-4
"""Longest wait of the thread that commands for the one that loads, which holds the interpreter's lock: Python's own,
5 ms, is half a control period."""


class PolicySwap:
    """Loads another file in a thread of its own while the node steps, and says on ``policy/file`` which one steps.

    The file must be for the same robot, with the inputs, outputs and rate of the one that steps, so that no topic
    changes. What is refused is said there too, and the one that steps goes on.

    Args:
        node: The policy node.
        robot: Its robot; None: not known.
        policy: What it steps first.
        present: Returns the newest value of each signal.
        steps: Returns the number of steps so far.
    """

    def __init__(
        self,
        node: Any,
        robot: RobotSpec | None,
        policy: Policy,
        present: Callable[[], Mapping[str, Array]],
        steps: Callable[[], int],
    ) -> None:
        self._node, self._robot, self._present, self._steps = node, robot, present, steps
        self._policy = self._proven = policy
        self._thread: threading.Thread | None = None
        self.found: tuple[Policy, Record] | str | None = None
        """What was loaded, with the record beside it, or why it is refused; None: nothing new."""
        self._asked = ("", "")
        self._file = node.publisher(topics.type_of(topics.POLICY_FILE), topics.POLICY_FILE, "latched")
        self._say()

    def ask(self, changes: Mapping[str, Any]) -> str:
        """Begin to load the file that live changes of the node's parameters name; return why not, or nothing."""
        if POLICY not in changes:
            return ""
        if not self._node.active:
            return f"{POLICY}: the node is not active, and takes its file when it is configured"
        if self._thread is not None:
            return f"{POLICY}: {self._asked[0]} is still being loaded: ask again when policy/file has said of it"
        if why := _unfit(self._policy):
            return f"{POLICY}: {why}"
        self._asked = changes[POLICY], changes.get(SHA256, self._node.parameters[SHA256])
        needs_record = bool(self._node.parameters["require_record"])
        present = {name: np.array(value) for name, value in self._present().items()}
        self._thread = threading.Thread(target=self._work, args=(*self._asked, needs_record, present), daemon=True)
        self._thread.start()
        return ""

    def take(self) -> tuple[Policy, Mapping[str, Any]] | None:
        """Return the policy to step from now on, with its proof, once there is one; say what was refused.

        Call it between two steps.
        """
        if self.found is None:
            return None
        assert self._thread is not None
        self._thread.join()
        found, (path, sha256), parameters = self.found, self._asked, self._node.parameters
        self.found, self._thread = None, None
        if isinstance(found, str):
            parameters.put(POLICY, str(self._policy.path))
            parameters.put(SHA256, self._policy.sha256 if sha256 else "")
            self._say(path, found)
            return None
        policy, record = found
        self._policy = policy
        if ADAPTED_FROM not in record.data:
            self._proven = policy
        if parameters["record_sha256"]:
            parameters.put("record_sha256", record.sha256)
        self._say()
        return policy, record.proof_of(policy.sha256)

    def close(self) -> None:
        """Wait for what is being loaded."""
        if self._thread is not None:
            self._thread.join()

    def _say(self, refused: str = "", why: str = "") -> None:
        message = topics.type_of(topics.POLICY_FILE)()
        message.data = file_text(
            PolicyFile(str(self._policy.path), self._policy.sha256, self._steps(), refused=refused, why=why)
        )
        self._file.publish(message)

    def _work(self, path: str, sha256: str, needs_record: bool, present: Mapping[str, Array]) -> None:
        if hasattr(os, "sched_setscheduler"):  # it has inherited the priority of the thread that commands
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        usual = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        try:
            found = self._load(path, sha256, needs_record, present)
            # logged here: rclpy looks for the caller in all modules, which takes a tenth of a second at first
            if isinstance(found, str):
                self._node.get_logger().error(f"{self._policy.path} goes on: {found}")
            else:
                self._node.get_logger().info(f"{path} ({found[0].sha256[:16]}...) takes the policy's place.")
            self.found = found
        finally:
            sys.setswitchinterval(usual)

    def _load(
        self, path: str, sha256: str, needs_record: bool, present: Mapping[str, Array]
    ) -> tuple[Policy, Record] | str:
        from rlstack.policies import load_policy  # here: planner nodes need no policy file

        try:
            policy = load_policy(path, robot=self._robot, sha256=sha256)
            require_same(self._policy.contract, policy.contract, path)
            record = read_record(policy.path)
            if needs_record:
                origin = Proven(self._proven.sha256, read_record(self._proven.path))
                require_record(record, policy, self._robot, origin)
            _try(policy, present)
            policy.reset()
            return policy, record
        except UserError as error:
            return str(error)
        except Exception as error:  # whatever it is, the thread's end must be told: the node waits for it
            return f"{path} cannot be loaded ({type(error).__name__}: {error})."


def swap_of(node: Any, robot: RobotSpec | None, policy: Policy, loop: PolicyLoop) -> PolicySwap | None:
    """Return what loads another file while a node steps; None: the node steps no file.

    Args:
        node: The node, whose live parameters it takes.
        robot: Its robot; None: not known.
        policy: What it steps.
        loop: Its steps.
    """
    if POLICY not in {parameter.name for parameter in node.PARAMETERS}:
        return None
    swap = PolicySwap(node, robot, policy, lambda: loop.seen, lambda: loop.counts.steps)
    node.parameters.check = swap.ask
    return swap


def _unfit(policy: Any) -> str:
    """Return why a node's policy cannot be replaced while it steps; empty: it can."""
    if not getattr(policy, "sha256", ""):
        return "what steps here is no policy file, and no file can take its place: start the node anew"
    if policy.contract.chunk:
        return f"{policy.path} plans chunks, and one that is half carried out cannot be replaced: start the node anew"
    return ""


def require_same(flown: Contract, other: Contract, where: str) -> None:
    """Refuse a policy that does not read the same topics in the same way, or commands others, or at another rate.

    Raises:
        UserError: Names what differs.
    """
    for kind, ours, theirs in (("input", flown.inputs, other.inputs), ("output", flown.outputs, other.outputs)):
        before, after = (
            {port.name: replace(port, minimum=(), maximum=()) for port in ports} for ports in (ours, theirs)
        )
        missing, added = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
        if missing or added:
            told = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(added)} as well"] * bool(added)
            raise UserError(f"{where} has other {kind}s than {flown.name}, which steps: it {' and '.join(told)}.")
        for name, port in before.items():
            for one in fields(port):
                old, new = getattr(port, one.name), getattr(after[name], one.name)
                if old != new:
                    raise UserError(f"{where}: the {kind} '{name}' has the {one.name} {new}, not {old} as now.")
    if flown.rate_hz != other.rate_hz:
        raise UserError(f"{where} steps at {other.rate_hz:g} Hz, not at {flown.rate_hz:g} Hz as {flown.name}.")
    if other.chunk:
        raise UserError(f"{where} plans chunks, and can only be started with the node.")
    if bool(flown.state) != bool(other.state):
        has = "keeps" if other.state else "keeps no"
        raise UserError(f"{where} {has} recurrent state, unlike {flown.name}: start the node anew with it.")


def require_record(record: Record, policy: Policy, robot: RobotSpec | None, proven: Proven | None = None) -> None:
    """Refuse a policy without a passing verification record over topics that is trusted, for this robot file.

    One that was adapted in flight is proven in process, for what the flight told of the robot instead of its file. That
    is enough only beside the whole proof of the policy that it was adapted from.

    Args:
        record: The record beside the policy file.
        policy: The policy.
        robot: The robot; None: not known.
        proven: The last policy that was not adapted in flight.

    Raises:
        UserError: Names the record and what is wrong with it.
    """
    path, remedy = record.path, "verify it with `rlstack verify`, or start without the need of a record (--force)"
    lacking, origin = lacks(record, policy.sha256, robot), record.data.get(ADAPTED_FROM)
    if record.doubt:
        raise UserError(f"{policy.path} is not proven: its record {path} {record.doubt}: {remedy}.")
    if "the policy" in lacking:
        raise UserError(f"{policy.path} is not proven: {path} is for another policy file: {remedy}.")
    if "a pass" in lacking:
        raise UserError(f"{policy.path} did not pass its verification ({path}): {remedy}.")
    adapted = origin is not None and proven is not None and origin == proven.sha256
    if "the robot" in lacking or (not adapted and {"a robot file", "the robot file"} & set(lacking)):
        raise UserError(f"{policy.path} is not proven for this robot file, by its record {path}: {remedy}.")
    if not adapted and not over_topics(record):
        raise UserError(
            f"{policy.path} is not proven: its record {path} is of trials in process only, not over topics: {remedy}."
        )
    if (
        adapted
        and proven is not None
        and (lacks(proven.record, proven.sha256, robot) or not over_topics(proven.record))
    ):
        raise UserError(
            f"{policy.path} is not proven: it was adapted from a policy whose own proof is not complete"
            f" ({proven.record.path}): {remedy}."
        )


@dataclass(frozen=True)
class Proven:
    """A policy file that has a proof of its own, from which others may be adapted in flight.

    Args:
        sha256: Of its bytes.
        record: The record beside it.
    """

    sha256: str
    record: Record


def _try(policy: Policy, present: Mapping[str, Array]) -> None:
    """Step on the present inputs, as far as there are all of them; raise ``UserError`` if that fails."""
    names = [port.name for port in policy.contract.inputs]
    if not set(names) <= present.keys():
        return
    try:
        for _ in range(_TRIED):
            policy.step({name: present[name] for name in names})
    except (ValueError, PolicyOutputError) as error:
        raise UserError(f"{policy.path} fails on the present inputs: {error}") from error
