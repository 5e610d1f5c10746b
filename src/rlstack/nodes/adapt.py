"""The adaptation node: watches a quadrotor's last seconds, and has its policy adapted to what it is now, in flight.

It commands nothing: it asks the policy node to take another file, which that node checks itself. Measuring, learning
and proving are done in a process beside it.
"""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any, ClassVar

from rlstack.data.bags.mcap_file import Message
from rlstack.errors import UserError
from rlstack.identification.kind_adaptation import Told
from rlstack.identification.recorded import header_stamp
from rlstack.interfaces import topics
from rlstack.interfaces.kind_signals import command_of
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.step_messages import PolicyFile, read_file_text
from rlstack.kinds import find_kind
from rlstack.nodes.adapt_decisions import Decisions
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.polled_topics import listener_of
from rlstack.nodes.recorded_topic import RecordedTopic
from rlstack.nodes.robot_parameters import ROBOT_SHA256, checked_robot
from rlstack.nodes.runtime import ManagedNode
from rlstack.training.adaptation_messages import Adapt, Candidate, Failed, Look, Origin, Warm
from rlstack.training.adaptation_process import AdaptationProcess

PARAMETERS = (
    Parameter("robot", "", "Robot that the policy is for, a name or file."),
    ROBOT_SHA256,
    Parameter("policy", "", "Path of the proven policy file that is adapted."),
    Parameter("policy_sha256", "", "SHA-256 that it must have."),
    Parameter("out", "", "Folder for recordings, robot files, policies and proofs; made when the node starts."),
)

_POLL_S = 0.1
_WINDOW_S = 3.0
"""Flight that is looked at: 1 s in which the rotors' speeds become known, and 2 s to fit."""

LEAST_WINDOW_S = _WINDOW_S - 0.1
"""Least of it that is looked at."""

_LOOK_S, _SOON_S = 2.0, 1.0
"""Time between two looks, and before one that is to confirm a change."""

_FLIES = "policy"
"""The guard's mode in which the policy commands."""

_SWAP_S = 10.0
"""Longest wait for the policy node's answer."""


class AdaptNode(ManagedNode):
    """See the module. What it does is said on the topic ``adaptation`` and in the log."""

    NAME: ClassVar[str] = "adapt"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(overrides, **options)
        self._process: AdaptationProcess | None = None

    def configure(self) -> None:
        """Start the process, and listen.

        Raises:
            UserError: The robot or its policy cannot be adapted to in flight.
        """
        from rcl_interfaces.srv import SetParametersAtomically

        robot = checked_robot(self.parameters)
        if not self.parameters["out"]:
            raise UserError("out: give a folder for what is measured, learned and proven.")
        self._origin = self.parameters["policy"], self.parameters["policy_sha256"]
        kind = find_kind(robot.kind).load("adaptation")
        self._decisions = Decisions(kind.unchanged())
        self._odom = self.resolve_topic_name(topics.ODOM)
        command = command_of(robot).topic
        self._heard: dict[str, deque[Message]] = {
            self.resolve_topic_name(name): deque() for name in (topics.ODOM, command)
        }
        self._listener = listener_of(self)
        self._recorded = [
            RecordedTopic(self._listener, self.resolve_topic_name(name), topics.TYPES[name], [], identified=False)
            for name in (topics.ODOM, command)
        ]
        self._said = self.publisher(topics.type_of(topics.ADAPTATION), topics.ADAPTATION, "latched")
        self.subscriber(topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, self._on_mode, "latched")
        self.subscriber(topics.type_of(topics.POLICY_FILE), topics.POLICY_FILE, self._on_file, "latched")
        self._swap = self.client(SetParametersAtomically, "policy/set_parameters_atomically")
        origin = Origin(*self._origin, self.parameters["robot"], self.parameters["robot_sha256"], self.get_namespace())
        self._process = AdaptationProcess(origin, Path(self.parameters["out"]))
        self._mode, self._number, self._looked_s = "", 0, 0.0
        self._again_s = _LOOK_S
        self._wanted: tuple[str, Told | None] | None = None
        """The file that the policy node was asked to take, and what it is for."""
        self._asked_at = 0.0
        self._told: Told | None = None
        self._why, self._same = "", False

    def activate(self) -> None:
        """Watch."""
        self._tell("Preparing to adapt in flight: loading and compiling.")
        self.every(_POLL_S, self._tick)

    def cleanup(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.close()
            for one in self._recorded:
                one.close()
            self._listener.destroy_node()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report what was said last."""
        return "", {"last": self._why, "adaptations": self._number}

    def _on_mode(self, message: Any) -> None:
        if message.data != self._mode:
            self._mode = message.data
            if self._mode != _FLIES:
                self._forget()

    def _on_file(self, message: Any) -> None:
        try:
            file = read_file_text(message.data)
        except ValueError as error:
            self.refuse(topics.POLICY_FILE, str(error))
            return
        if self._wanted is not None:
            self._swapped(file, *self._wanted)

    def _forget(self) -> None:
        for messages in self._heard.values():
            messages.clear()

    def _tick(self) -> None:
        process = self._process
        assert process is not None
        self._listen()
        if self._wanted is not None and time.monotonic() - self._asked_at > _SWAP_S:
            self._tell("The policy node did not answer whether it takes the adapted policy: the present one flies on.")
            self._wanted = None
        if (answer := process.answer()) is not None:
            self._take(answer)
        newest = self._heard[self._odom]
        if process.busy or self._wanted is not None or not newest:
            return
        now_s = header_stamp(newest[-1].data) / NANOSECONDS
        full = now_s - header_stamp(newest[0].data) / NANOSECONDS >= LEAST_WINDOW_S
        if full and not 0.0 <= now_s - self._looked_s < self._again_s:
            self._looked_s = now_s
            messages = [message for heard in self._heard.values() for message in heard]
            process.ask(Look(sorted(messages, key=lambda one: one.received_ns)))

    def _listen(self) -> None:
        """Keep the last seconds in which the policy flew."""
        for one in self._recorded:
            taken = one.take()
            if self._mode == _FLIES:
                self._heard[one.name].extend(taken)
        odometry = self._heard[self._odom]
        if not odometry:
            return
        newest = header_stamp(odometry[-1].data)
        while newest - header_stamp(odometry[0].data) > _WINDOW_S * NANOSECONDS:
            odometry.popleft()
        for name, heard in self._heard.items():
            while name != self._odom and heard and heard[0].received_ns < odometry[0].received_ns:
                heard.popleft()

    def _take(self, answer: Any) -> None:
        if isinstance(answer, Warm):
            self._tell("Ready to adapt in flight: watching what the robot is.")
        elif isinstance(answer, Told):
            self._judge(answer)
        elif isinstance(answer, Candidate):
            self._propose(answer)
        elif isinstance(answer, Failed) and self._told is None:
            self._again_s = _LOOK_S
            self.warn(f"The last seconds do not tell what the robot is: {answer.why}", "look")
        elif isinstance(answer, Failed):
            self._refused(f"Not adapted: {answer.why}")

    def _judge(self, told: Told) -> None:
        decision = self._decisions.seen(told)
        self._again_s = _SOON_S if decision == "look again" else _LOOK_S
        if decision == "look again":
            self._tell(f"Measured: {told.sentence}. Looking again, in case it is changing.")
        elif decision == "nothing" and not (self._same or told.edits):
            self._same = True
            self._tell(f"Measured: {told.sentence}. Nothing to adapt to.")
        elif decision == "return":
            self._tell(f"Measured: {told.sentence}. Returning to the policy of the file.")
            self._ask(*self._origin, None)
        elif decision == "adapt":
            assert self._process is not None
            self._number, self._told = self._number + 1, told
            self._tell(f"Measured: {told.sentence}. Learning for that; the present policy flies on.")
            self._process.ask(Adapt(told, self._number))

    def _propose(self, found: Candidate) -> None:
        told = self._told
        assert told is not None
        judged = f"{found.trials} flights in each of {found.conditions} conditions"
        if found.failures:
            self._refused(f"Not swapped: the adapted policy failed its proof ({judged}): {' '.join(found.failures)}")
            return
        self._tell(
            f"Learned in {found.learned_s:.1f} s and proven in {found.proved_s:.1f} s of processor time ({judged}):"
            f" {1e3 * found.error_m:.1f} mm off the goal. Swapping."
        )
        self._ask(str(found.policy), found.sha256, told)

    def _refused(self, sentence: str) -> None:
        assert self._told is not None
        self._decisions.refused(self._told)
        self._told = None
        self._tell(f"{sentence} The present policy flies on.")

    def _ask(self, policy: str, sha256: str, told: Told | None) -> None:
        """Ask the policy node to take a file."""
        from rcl_interfaces.srv import SetParametersAtomically
        from rclpy.parameter import Parameter as RosParameter

        values = {"policy": policy, "policy_sha256": sha256}
        named = [RosParameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        self._wanted, self._asked_at = (policy, told), time.monotonic()
        future = self._swap.call_async(SetParametersAtomically.Request(parameters=named))
        future.add_done_callback(self._on_asked)

    def _on_asked(self, future: Any) -> None:
        result = future.result()
        if self._wanted is not None and result is not None and not result.result.successful:
            self._not_taken(result.result.reason, self._wanted[1])

    def _swapped(self, file: PolicyFile, policy: str, told: Told | None) -> None:
        """Take note of what the policy node says of the file that it was asked to take."""
        if file.refused == policy:
            self._not_taken(file.why, told)
        elif file.policy == policy:
            self._wanted = self._told = None
            self._decisions.flies(told)
            self._forget()
            what = "The policy of the file" if told is None else f"The policy for {told.sentence}"
            self._tell(f"Swapped: {what} flies after step {file.after_step}, without a break.")

    def _not_taken(self, why: str, told: Told | None) -> None:
        self._wanted, self._told = None, None
        self._decisions.refused(told or self._decisions.unchanged)
        self._tell(f"Not swapped: {why} The present policy flies on.")

    def _tell(self, sentence: str) -> None:
        self._why = sentence
        message = topics.type_of(topics.ADAPTATION)()
        message.data = sentence
        self._said.publish(message)
        self.get_logger().info(sentence)


main = AdaptNode.main

if __name__ == "__main__":
    raise SystemExit(main())
