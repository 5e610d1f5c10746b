"""The policy node: runs a policy file on the topics that its contract names."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.messages import NANOSECONDS, stamp_to_ns
from rlstack.interfaces.path_messages import GoalPath
from rlstack.interfaces.timing import Arrival, StampClock
from rlstack.nodes.command_messages import command_message
from rlstack.nodes.frames import frames_of
from rlstack.nodes.goal_subscriptions import GoalReceiver, goal_limits
from rlstack.nodes.goal_topics import PERIOD_S as GOAL_TOPICS_PERIOD_S
from rlstack.nodes.goal_topics import GoalPoint, GoalTopics, has_goal
from rlstack.nodes.instruction_subscription import InstructionReceiver
from rlstack.nodes.kind_topics import kind_topics
from rlstack.nodes.live_check import WINDOW_S, ArrivalClock, LiveCheck
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.placed_messages import PlacedMessages
from rlstack.nodes.policy_loop import Answer, PolicyLoop
from rlstack.nodes.policy_parameters import PARAMETERS
from rlstack.nodes.policy_steps import PolicySteps
from rlstack.nodes.policy_swap import PolicySwap, swap_of
from rlstack.nodes.progress_checker import ProgressChecker
from rlstack.nodes.runtime import ManagedNode
from rlstack.nodes.sensor_readers import cameras_of, every_ns, reader
from rlstack.nodes.simulated_pace import follow_pace
from rlstack.nodes.topic_timeout import TopicTimeout
from rlstack.nodes.transform_listener import TransformListener
from rlstack.policies import Contract, Port
from rlstack.policies.proven import proven_for
from rlstack.robots import RobotSpec
from rlstack.robots.frames import from_yaw

if TYPE_CHECKING:
    from rlstack.policies import Policy
    from rlstack.policies.planning import PlanningPolicy

_NAN = math.nan
_GOAL_PERIOD_S = 0.2
_CHECK_PERIOD_S = 0.5
_STANDING = ("", "disarmed", "estop")
"""The guard's modes in which the robot stands still, and no mode yet."""


class PolicyNode(ManagedNode):
    """Steps a policy on the robot's topics and sends its commands to the guard, under ``policy/``.

    Args:
        policy: A loaded policy; None takes the parameter ``policy``.
        overrides: Parameter values.
        options: For ``rclpy.node.Node``.
    """

    NAME: ClassVar[str] = "policy"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, policy: Policy | None = None, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(overrides, **options)
        self._given = policy
        self._planning: PlanningPolicy | None = None
        self._swap: PolicySwap | None = None

    def configure(self) -> None:
        """Load the policy and subscribe to exactly the topics that its contract names."""
        from std_srvs.srv import Trigger

        loaded: tuple[Any, RobotSpec | None] = (self._given, None) if self._given else self._load()
        self._policy, robot = loaded
        contract = self._policy.contract
        if "waypoint" in {port.name for port in contract.outputs}:
            raise UserError(
                f"{self._policy.path} selects goals on a map and does not drive: use it with a planner that drives:"
                f" `rlstack up deploy --robot {contract.robot} --policy {self._policy.path}`, or in the planner"
                f' node, -p planner:=explorer_policy -p options:=\'{{"policy": "{self._policy.path}"}}\'.'
            )
        self._lock_step = self.parameters["lock_step"]
        self._loop = PolicyLoop(
            self._policy,
            latched=topics.LATCHED,
            stale_after_periods=self.parameters["stale_after_periods"],
            lock_step=self._lock_step,
            every_ns=every_ns(robot) if robot else None,
            cameras=cameras_of(robot) if robot else None,
            picture_max_age_s=self.parameters["picture_max_age_s"],
        )
        self._robot = robot
        self._progress = self._make_progress_checker(contract)
        self._frames = frames_of(self.parameters, fixed_base=robot is not None and robot.fixed_base)
        self._goal_topics = self._make_goal_topics(contract)
        self._answered_ns = 0
        self._stamps = StampClock(self._lock_step)
        if contract.state:  # before the publishers: who receives commands knows the service
            self.server(Trigger, topics.POLICY_RESET, self._on_reset)
        self._senders = {port.name: self._sender(port) for port in contract.outputs}
        self._steps = PolicySteps(self, self._loop, contract)
        self._swap = swap_of(self, self._robot, self._policy, self._loop)
        by_topic: dict[str, list[Port]] = {}
        for port in contract.inputs:
            by_topic.setdefault(port.topic, []).append(port)
        self._types = {topic: ports[0].type for topic, ports in by_topic.items()}
        self._received: set[str] = set()
        self._timeout = TopicTimeout(self, self._types, topics.LATCHED)
        listener = TransformListener(self, lambda: self._stamps.now_ns(time.monotonic_ns(), time.time_ns()))
        self._placed = PlacedMessages(listener, self._frames)
        limits = goal_limits(robot, self.parameters)
        self._goal_inputs = {port.name for port in by_topic.get(topics.GOAL, ())}
        self._default_goal = np.full(4, _NAN)
        follows, rests = topics.GOAL_PATH in by_topic, topics.GOAL in by_topic or topics.GOAL_PATH in by_topic
        self._goals = GoalReceiver(
            self,
            listener,
            self._frames,
            limits,
            self._on_goal if rests else None,
            self._on_path if follows else None,
            self._on_refused,
        )
        self._instructions = self._make_instruction_receiver(contract)
        given = np.array(self.parameters["goal_position"])
        if rests and np.isfinite(given).all() and (why := self._goals.refusal(given)):
            raise UserError(f"goal_position: {given.tolist()} is not allowed: {why}.")
        # Subscriptions are served in the order of creation: a new goal applies to messages that arrive with it, and a
        # path wins over a simultaneous goal.
        for topic in sorted(by_topic.keys() - topics.LATCHED):
            self._subscribe(topic, by_topic[topic])
        if rests:
            self.server(Trigger, topics.GOAL_HOLD, self._on_hold)
        self._check: LiveCheck | None = None
        self._checked: str | None = None
        if self.parameters["live_check"] and robot is not None and not self._lock_step:
            self._check = LiveCheck(contract, proven_for(contract, self._proof()), robot)
            self._check_publisher = self.publisher(topics.type_of(topics.LIVE_CHECK), topics.LIVE_CHECK, "latched")
            self._arrival = ArrivalClock()
            self.subscriber(topics.type_of(topics.CLOCK), topics.CLOCK, self._on_clock, "sensor_in")
            self.subscriber(topics.type_of(topics.GUARD_MODE), topics.GUARD_MODE, self._on_mode, "latched")
        if not self._lock_step:
            follow_pace(self, self._on_pace)
        self._mode = ""

    def activate(self) -> None:
        """Start stepping."""
        self._loop.reset()
        self._use_default_goal()
        self.every(_GOAL_PERIOD_S, self._use_default_goal)  # its parameters are live
        if self._instructions is not None:
            self._instructions.start()
            self.every(_GOAL_PERIOD_S, self._instructions.use_default)
        self._goals.start()
        self.every(GOAL_TOPICS_PERIOD_S, self._publish_goal)
        if self._check is not None:
            self.every(_CHECK_PERIOD_S, self._report_check)
        self._timeout.start()
        self._timer = self.every(1e-9 * self._loop.next_tick_ns, self._tick)
        self._tick_ns = self._loop.next_tick_ns

    def cleanup(self) -> None:
        """End the threads that plan, and that load another file."""
        super().cleanup()
        swap, self._swap = self._swap, None
        if swap is not None:
            swap.close()
        planning, self._planning = self._planning, None
        if planning is not None:
            planning.close()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the steps."""
        counts = self._loop.counts
        figures = {
            "policy": self._policy.contract.name,
            **({"sha256": self._policy.sha256} if self._policy.sha256 else {}),
            "steps": counts.steps,
            "steps on a repeated observation": counts.repeated,
            "stale": counts.stale,
            "out of order": counts.dropped,
            "refused": counts.refused,
            "last refusal": counts.last_refusal,
            "recurrent state resets": counts.resets,
        }
        warning = counts.warning
        if self._progress is not None:
            figures["goal"] = self._progress.status
            warning = warning or self._progress.warning
        refused, told = self._goals.warning, ""
        if self._instructions is not None:
            figures["instruction"], told = self._instructions.present, self._instructions.awaited
            refused = refused or self._instructions.refusal
        if self._planning is not None:
            planned = self._planning.counts
            figures |= {"plans": planned.plans, "steps without a plan": planned.late}
            figures["planning ms"] = round(planned.latency_ms, 1)
            warning = warning or self._planning.warning
        if missing := sorted(self._loop.missing - {topics.INSTRUCTION}):
            told = f"waiting for {', '.join(missing)}"
        return refused or told or warning, figures

    def _load(self) -> tuple[Any, RobotSpec]:
        """Return the policy to step, and the robot that it is for."""
        from rlstack.nodes.policy_files import loaded  # here: planner nodes need no policy file

        policy, robot = loaded(self.parameters)
        if policy.contract.chunk and self.parameters["asynchronous"] and not self.parameters["lock_step"]:
            from rlstack.policies.planning import PlanningPolicy

            self._planning = PlanningPolicy(policy)
            return self._planning, robot
        return policy, robot

    def _proof(self) -> Mapping[str, Any]:
        """Return the policy's verification record; empty if there is none that is trusted."""
        from rlstack.nodes.policy_files import proof_of

        return proof_of(self._policy, self.parameters)

    def _take_other(self) -> None:
        """Step another file from now on, once it is loaded; called when the last step's command is out."""
        if self._swap is None or (taken := self._swap.take()) is None:
            return
        self._policy, proof = taken
        self._loop.swap(self._policy)
        if self._check is not None and self._robot is not None:
            self._check = LiveCheck(self._policy.contract, proven_for(self._policy.contract, proof), self._robot)

    def _make_progress_checker(self, contract: Contract) -> ProgressChecker | None:
        """Return the progress checker for a base's goals; None where it does not apply."""
        drives = {port.topic for port in contract.outputs} == {topics.TWIST_COMMAND}
        if not drives or not {"position", "goal_position"} <= {port.name for port in contract.inputs}:
            return None
        return ProgressChecker(self.parameters["goal_tolerance_m"], self.parameters["patience_s"])

    def _make_goal_topics(self, contract: Contract) -> GoalTopics | None:
        """Return the topics of the goal; None where there is none."""
        inputs = [port.name for port in contract.inputs]
        if not (has_goal(inputs) or self._waypoint_signals()):
            return None
        point = GoalPoint() if self._robot is None else kind_topics(self._robot).goal_point(self._robot, inputs)
        if self._progress is not None:
            point = replace(point, tolerance_m=self.parameters["goal_tolerance_m"])
        return GoalTopics(self, point, self._frames.goal)

    def _make_instruction_receiver(self, contract: Contract) -> InstructionReceiver | None:
        """Return what receives the policy's instructions; None: it takes none."""
        text = next((port.text for port in contract.inputs if port.text is not None), None)
        return None if text is None else InstructionReceiver(self, text, self._on_instruction)

    def _on_instruction(self, signal: Array) -> None:
        self._loop.on_message(topics.INSTRUCTION, 0, {topics.INSTRUCTION: signal})

    def _waypoint_signals(self) -> Mapping[str, Array]:
        """Return the goal that the node has chosen itself, as signals; empty if it is an input."""
        return {}

    def _has_arrived(self) -> bool | None:
        """Return whether what drives reports that it has arrived; None: it reports nothing."""
        return None

    def _publish_goal(self) -> None:
        if self._goal_topics is not None:
            seen = {**self._loop.seen, **self._waypoint_signals()}
            self._goal_topics.publish(self._answered_ns, seen, self._has_arrived())

    def _on_hold(self, request: Any, response: Any) -> Any:
        goal = None if self._goal_topics is None else self._goal_topics.present(self._loop.seen)
        if not self.active or goal is None:
            response.message = "Not active, or no observation has arrived yet."
            return response
        self._received |= {topics.GOAL, topics.GOAL_PATH}
        self._goals.forget()  # a goal in map must not move it on
        self._set_goal(**goal)
        self._goal_taken()
        x, y, z = goal["goal_position"].tolist()
        response.success, response.message = True, f"It holds its position, {x:.2f} {y:.2f} {z:.2f} m."
        return response

    def _goal_taken(self) -> None:
        if self._goal_topics is not None:
            self._goal_topics.taken()

    def _sender(self, port: Port) -> Callable[[int, Array], None]:
        kind = topics.message_type(port.type)
        publisher = self.publisher(kind, topics.POLICY_PREFIX + port.topic, "command")
        message = command_message(port.name, port.element_names)
        self._frames.mark(message.message)
        return lambda stamp_ns, values: publisher.publish(message.fill(stamp_ns, values))

    def _subscribe(self, topic: str, ports: list[Port]) -> None:
        kind = topics.message_type(ports[0].type)
        quality: topics.Quality = "sensor_in_reliable" if self._lock_step else "sensor_in"
        read = reader(ports, self.parameters, self._robot, self._placed)
        self._placed.receivers[topic] = lambda data: receive(data)
        loop, stamps, is_trigger = self._loop, self._stamps, topic == self._loop.trigger

        def receive(data: bytes) -> None:
            if not self.active:
                return
            try:
                stamp, values = read(data)
            except ValueError as error:
                if self._placed.waits(topic, data, error):
                    return
                loop.counts.refused += 1
                loop.counts.last_refusal = loop.counts.warning = f"{topic}: {error}"
                self._timeout.refused[topic] = str(error)
                self.warn(f"A message on the topic {self.resolve_topic_name(topic)} was refused: {error}.", topic)
                return
            self._placed.came(topic)
            if self._check is not None and self._mode in _STANDING:
                self._measure(self._check, topic, stamp, values)
            arrival = stamps.observe(stamp, time.monotonic_ns(), time.time_ns()) if is_trigger else Arrival.NEXT
            if arrival is Arrival.DROPPED:
                loop.counts.dropped += 1
                return
            refused = loop.counts.refused
            answer = loop.on_message(topic, stamp, values, restarted=arrival is Arrival.RESTARTED)
            if answer is not None:
                self._send(answer)
            elif loop.counts.refused != refused:
                self.warn(f"The policy was not stepped: {loop.counts.last_refusal}", "refused input")

        self.subscriber(kind, topic, receive, quality, raw=True)

    def _send(self, answer: Answer) -> None:
        for name, values in answer.outputs.items():
            self._senders[name](answer.stamp_ns, values)
        self._answered_ns = answer.stamp_ns
        self._steps.stepped(answer)
        if self._progress is not None:
            seen = self._loop.seen
            self._progress.update(answer.stamp_ns, seen["position"], seen["goal_position"])
        self._take_other()
        # The timer restarts with every step, so it fires only when the next observation is late.
        if self._tick_ns != self._loop.next_tick_ns:
            self._tick_ns = self._timer.timer_period_ns = self._loop.next_tick_ns
        self._timer.reset()

    def _tick(self) -> None:
        self._timeout.check(self._loop.missing - {topics.INSTRUCTION})  # whoever instructs it may take their time
        now = self._stamps.now_ns(time.monotonic_ns(), time.time_ns())
        if now is not None:
            self._loop.stale_after_periods = self.parameters["stale_after_periods"]
            answer = self._loop.on_tick(now)
            if answer is not None:
                self._send(answer)
            else:
                self._steps.flush()
                self._take_other()

    def _use_default_goal(self) -> None:
        position, yaw = np.array(self.parameters["goal_position"]), self.parameters["goal_yaw"]
        if not np.isfinite(position).all():
            return
        given = np.append(position, yaw)
        if not np.array_equal(given, self._default_goal, equal_nan=True) and (why := self._goals.refusal(position)):
            self.warn(f"goal_position {position.tolist()} was refused: {why}.")
            return
        self._default_goal = given
        orientation = from_yaw(0.0 if math.isnan(yaw) else yaw)
        if topics.GOAL in self._types and topics.GOAL not in self._received:
            self._set_goal(goal_position=position, goal_orientation=orientation)
        if topics.GOAL_PATH in self._types and topics.GOAL_PATH not in self._received:
            self._rest_at(position, orientation)

    def _rest_at(self, position: Array, orientation: Array) -> None:
        stamps = np.array([0, NANOSECONDS])  # a path that stays in place: its time does not matter
        self._loop.on_path(GoalPath(stamps, np.tile(position, (2, 1)), np.tile(orientation, (2, 1))))

    def _on_goal(self, position: Array, orientation: Array, *, moved: bool) -> None:
        self._received.add(topics.GOAL)
        self._set_goal(goal_position=position, goal_orientation=orientation)
        if not moved:
            self._goal_taken()

    def _on_refused(self, sentence: str) -> None:
        if self._goal_topics is not None:
            self._goal_topics.refused(sentence)

    def _on_path(self, path: GoalPath, *, from_now: bool, moved: bool) -> None:
        self._received.add(topics.GOAL_PATH)
        if moved:
            self._loop.move_path(path)
            return
        self._loop.on_path(path, from_now=from_now)
        self._goal_taken()

    def _set_goal(self, **goal: Array) -> None:
        """Set the goal; for policies that only follow paths, as a path that stays there."""
        if topics.GOAL in self._types:
            self._loop.on_message(topics.GOAL, 0, {name: goal[name] for name in self._goal_inputs})
        else:
            self._received.add(topics.GOAL_PATH)
            self._rest_at(goal["goal_position"], goal["goal_orientation"])

    def _measure(self, check: LiveCheck, topic: str, stamp: int, values: dict[str, Array]) -> None:
        now = time.monotonic_ns(), time.time_ns()
        if self._arrival.applies_to(stamp, *now):
            check.restart()
        check.add(topic, stamp, self._arrival.arrived_ns(stamp, *now), values)

    def _on_clock(self, message: Any) -> None:
        self._arrival.observe(stamp_to_ns(message.clock), time.monotonic_ns(), time.time_ns())

    def _on_pace(self, rate: float, now_ns: int) -> None:
        self._stamps.set_rate(rate, now_ns)
        if self._check is not None:
            self._check.restart()

    def _report_check(self) -> None:
        """Publish the findings of the live check when they change, while the robot is disarmed."""
        check = self._check
        if check is None or self._mode not in _STANDING or self._stamps.stands:
            return
        if check.measured_for_s(self._arrival.now_ns(time.monotonic_ns(), time.time_ns())) < WINDOW_S:
            return
        text = "; ".join(check.findings())
        if text == self._checked:
            return
        self._checked = text
        if text:
            self.warn(f"Outside of what the policy is proven for: {text}.", "live check")
        message = topics.type_of(topics.LIVE_CHECK)()
        message.data = text
        self._check_publisher.publish(message)

    def _on_mode(self, message: Any) -> None:
        before, self._mode = self._mode, message.data
        if self._check is not None and self._mode in _STANDING and before not in _STANDING:
            self._check.restart()

    def _on_reset(self, request: Any, response: Any) -> Any:
        if self.active:
            self._loop.restart()
        response.success = self.active
        response.message = "It starts anew with the next observation." if self.active else "The node is not active."
        return response


main = PolicyNode.main

if __name__ == "__main__":
    raise SystemExit(main())
