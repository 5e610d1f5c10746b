"""Scheduling of policy steps and their inputs, independent of ROS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.interfaces.messages import NANOSECONDS
from rlstack.interfaces.path_messages import GoalPath
from rlstack.interfaces.sensor_queue import samples_arrived, samples_until
from rlstack.interfaces.timing import JUMP_NS
from rlstack.interfaces.topics import GOAL_PATH, ODOM
from rlstack.nodes.step_inputs import StepInputs
from rlstack.policies import PolicyOutputError
from rlstack.policies.robot_envelope import PERIODS

if TYPE_CHECKING:
    from rlstack.policies import Contract, Policy

_SLACK_NS = 1000
"""Tolerance for rounded stamps."""


@dataclass(frozen=True)
class Answer:
    """A policy's command.

    Args:
        stamp_ns: Stamp of the observation that it answers.
        outputs: Arrays by signal name.
    """

    stamp_ns: int
    outputs: Mapping[str, Array]


@dataclass
class Counts:
    """Counters since the start."""

    steps: int = 0
    repeated: int = 0
    stale: int = 0
    dropped: int = 0
    refused: int = 0
    resets: int = 0
    last_refusal: str = "none"
    warning: str = field(default="")


class PolicyLoop:
    """Steps a policy on messages and timer ticks, and returns its commands.

    Odometry, or else the contract's first sensor topic that is not a camera's, is the trigger: a new message on it
    triggers a step once a control period has passed according to the messages' stamps. If the trigger is slower than
    the control rate, ticks step again on the last observation while it is younger than its greatest age; call
    :meth:`on_tick` :attr:`next_tick_ns` after each step. Latched topics (the goal, the path) are never stale.

    Args:
        policy: Ready to step.
        latched: Topics whose last value holds forever.
        stale_after_periods: Greatest age of inputs, in periods of the policy's control rate, or of a slower topic; 0:
            the policy's own ages, or 2 periods where its file states none.
        lock_step: Step for every trigger stamp on inputs of exactly that stamp; a repeated stamp gets the same answer.
        every_ns: Period, ns, including latency, of topics with their own rate, such as scans: the newest message may be
            this much older than the observation.
        cameras: Rate, Hz, and latency, ns, of image topics, from which lock step computes which image is due.
        picture_max_age_s: Maximum age of an image; 0: the policy's own.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        latched: frozenset[str],
        stale_after_periods: float = 0.0,
        lock_step: bool = False,
        every_ns: Mapping[str, int] | None = None,
        cameras: Mapping[str, tuple[float, int]] | None = None,
        picture_max_age_s: float = 0.0,
    ) -> None:
        self.counts = Counts()
        self.stale_after_periods = stale_after_periods
        self._policy = policy
        self._lock_step = lock_step
        self._period_ns = round(NANOSECONDS / policy.contract.rate_hz)
        self._every_ns = dict(every_ns or {})
        topics = list(dict.fromkeys(port.topic for port in policy.contract.inputs))
        sensors = [topic for topic in topics if topic not in latched]
        if not sensors:
            raise UserError(f"{policy.path}: the policy reads no sensor, so nothing would make it step.")
        self._cameras, inputs = dict(cameras or {}), policy.contract.inputs
        self._allowed_ns = {
            port.topic: round(NANOSECONDS * (picture_max_age_s or port.picture.max_age_s))
            for port in inputs
            if port.picture is not None
        }
        self._latched = latched
        self._own_ages_ns = _own_ages_ns(policy.contract, latched)
        self._inputs = StepInputs(policy.contract)
        self._begun_ns = 0
        triggers = [topic for topic in sensors if topic not in self._allowed_ns]
        if not triggers:
            raise UserError(
                f"{policy.path}: the policy reads pictures alone, so nothing says what its commands answer: train it"
                " with joint states or odometry as well."
            )
        self.trigger = ODOM if ODOM in triggers else triggers[0]
        self.sensors = tuple(sensors)
        self._missing = set(topics)
        self._values: dict[str, Array] = {}
        self._path: GoalPath | None = None
        self._path_from_now = False
        self._stamps: dict[str, int] = {}
        self._interval_ns = self._period_ns
        self._due_ns: int | None = None
        self._answer: Answer | None = None

    @property
    def missing(self) -> frozenset[str]:
        """Topics without a message yet."""
        return frozenset(self._missing)

    @property
    def seen(self) -> Mapping[str, Array]:
        """The newest value of each signal."""
        return self._values

    @property
    def stamps(self) -> Mapping[str, int]:
        """Stamp of the newest message of each topic, ns."""
        return self._stamps

    @property
    def path(self) -> GoalPath | None:
        """The path that is followed."""
        return self._path

    @property
    def next_tick_ns(self) -> int:
        """How long after a step a tick is needed, ns: a trigger that is late only by jitter triggers its own step."""
        return self._period_ns if self._is_slow else self._period_ns + self._period_ns // 2

    @property
    def _is_slow(self) -> bool:
        return self._interval_ns > 1.5 * self._period_ns

    def reset(self) -> None:
        """Start another episode: reset the recurrent state and the time of the last step."""
        self.restart()
        self._answer = None

    def restart(self) -> None:
        """Reset the recurrent state and step on the next observation; in lock step, on one that is not yet answered."""
        self._policy.reset()
        self._due_ns = None
        self.counts.resets += 1

    def swap(self, policy: Policy) -> None:
        """Step another policy from now on, with the same inputs, outputs and rate, and no pause.

        Recurrent state that has the same names and shapes is taken over; any other begins at zero.
        """
        before, self._policy = self._policy, policy
        self._inputs, self._own_ages_ns = StepInputs(policy.contract), _own_ages_ns(policy.contract, self._latched)
        if policy.contract.state == before.contract.state:
            for name, state in before.state.items():
                policy.state[name][:] = state
        else:
            self.counts.resets += 1

    def on_message(
        self, topic: str, stamp_ns: int, values: Mapping[str, Array], *, restarted: bool = False
    ) -> Answer | None:
        """Process a message's signals; return a command if one is due.

        Args:
            topic: The topic.
            stamp_ns: The message's stamp; of the :attr:`trigger` not before the last one, unless ``restarted``.
            values: Arrays by signal name.
            restarted: Whether the trigger's stamps have jumped for good: another episode begins.
        """
        last = self._stamps.get(topic)
        if topic != self.trigger and last is not None and 0 < last - stamp_ns < JUMP_NS:
            self.counts.dropped += 1
            return None  # the newest is kept
        self._values.update(values)
        self._stamps[topic] = stamp_ns
        self._missing.discard(topic)
        if topic == self.trigger and last is None:
            self._begun_ns = stamp_ns
        elif topic == self.trigger and last is not None:
            if restarted:
                self.reset()
                self._begun_ns = stamp_ns
            elif stamp_ns > last:
                self._interval_ns = stamp_ns - last
        if self._missing or topic not in self.sensors:
            return None
        if self._lock_step:
            return self._in_lock_step()
        if topic != self.trigger or stamp_ns == last or not self._is_due(stamp_ns):
            return None
        return self._step(stamp_ns)

    def on_path(self, path: GoalPath, *, from_now: bool = False) -> None:
        """Set the path to follow, replacing the one before.

        Args:
            path: With stamps on the observations' clock.
            from_now: The stamps count from the newest observation instead, or from the first if there is none yet.
        """
        self._path, self._path_from_now = path, from_now
        self._missing.discard(GOAL_PATH)
        if self.trigger in self._stamps:
            self._begin_path(self._stamps[self.trigger])

    def move_path(self, path: GoalPath) -> None:
        """Follow the same path in another place: its poses are those of ``path``, its stamps stay."""
        if self._path is not None:
            self._path = replace(path, stamp_ns=self._path.stamp_ns)

    def on_tick(self, now_ns: int) -> Answer | None:
        """Return a command on the last observation if the trigger is slower than the control rate (not in lock step).

        Args:
            now_ns: The present time on the stamps' clock.
        """
        if self._lock_step or self._missing or self._due_ns is None:
            return None
        stamp = self._stamps[self.trigger]
        margin = -self._period_ns // 4 if self._is_slow else self._period_ns // 4
        if now_ns < self._due_ns + margin:
            return None
        if now_ns - stamp > self.greatest_age_ns(self.trigger):
            self.counts.stale += 1
            self.counts.warning = f"{self.trigger} is {1e-6 * (now_ns - stamp):.0f} ms old: no command"
            return None
        answer = self._step(stamp, repeated=True)
        self._schedule(now_ns)
        return answer

    def greatest_age_ns(self, topic: str) -> int:
        """Return the age from which messages of a sensor's topic are too old to act on."""
        if topic in self._allowed_ns:
            return self._allowed_ns[topic]
        if not self.stale_after_periods and topic in self._own_ages_ns:
            return self._own_ages_ns[topic]
        every_ns = self._period_ns if topic == self.trigger else max(self._every_ns.get(topic, 0), self._period_ns)
        return round(max((self.stale_after_periods or PERIODS) * every_ns, every_ns))

    def _begin_path(self, stamp_ns: int) -> None:
        if self._path is not None and self._path_from_now:
            self._path = replace(self._path, stamp_ns=self._path.stamp_ns + stamp_ns)
            self._path_from_now = False

    def _in_lock_step(self) -> Answer | None:
        stamp = self._stamps[self.trigger]
        if not all(self._goes_with(stamp, topic) for topic in self.sensors):
            return None
        if self._answer is not None and (stamp == self._answer.stamp_ns or not self._is_due(stamp)):
            self._answer = Answer(stamp, self._answer.outputs)  # repeat the last command; time must advance
            return self._answer
        return self._step(stamp)

    def _goes_with(self, stamp_ns: int, topic: str) -> bool:
        """Return whether a topic's newest message is the right one for an observation: no newer one is in transit."""
        newest = self._stamps[topic]
        if topic in self._cameras:
            rate_hz, latency_ns = self._cameras[topic]
            there = samples_arrived(stamp_ns - self._begun_ns, rate_hz, latency_ns, self._interval_ns)
            return newest <= stamp_ns and samples_until(newest - self._begun_ns, rate_hz) >= there
        if topic not in self._every_ns:
            return newest == stamp_ns
        return newest <= stamp_ns and newest + self._every_ns[topic] > stamp_ns + _SLACK_NS

    def _is_due(self, stamp_ns: int) -> bool:
        tolerance = min(self._interval_ns, self._period_ns) // 2
        return self._due_ns is None or stamp_ns >= self._due_ns - tolerance

    def _schedule(self, at_ns: int) -> None:
        """Schedule the next step relative to the last due time, so that the average rate is kept."""
        if self._due_ns is None or abs(at_ns - self._due_ns) > self._period_ns // 2:
            self._due_ns = at_ns
        self._due_ns += self._period_ns

    def _step(self, stamp_ns: int, repeated: bool = False) -> Answer | None:
        for topic in self.sensors:
            if abs(stamp_ns - self._stamps[topic]) > self.greatest_age_ns(topic):
                self.counts.stale += 1
                self.counts.warning = f"{topic} is {1e-6 * abs(stamp_ns - self._stamps[topic]):.0f} ms off: no command"
                return None
        if not repeated:
            self._schedule(stamp_ns)
        self._begin_path(stamp_ns)
        inputs = self._inputs.complete(self._values, self._stamps, self._path, stamp_ns)
        try:
            outputs = self._policy.step(inputs)
        except (ValueError, PolicyOutputError) as error:
            self.counts.refused += 1
            self.counts.last_refusal = self.counts.warning = str(error)
            return None
        self.counts.steps += 1
        self.counts.repeated += repeated
        self.counts.warning = ""
        self._answer = Answer(stamp_ns, outputs)
        return self._answer


def _own_ages_ns(contract: Contract, latched: frozenset[str]) -> dict[str, int]:
    """Return the greatest ages that a contract states, ns, by topic."""
    found: dict[str, int] = {}
    for port in contract.inputs:
        if port.name in contract.envelope.max_age_s and port.topic not in latched:
            age_ns = round(NANOSECONDS * contract.envelope.max_age_s[port.name])
            found[port.topic] = min(age_ns, found.get(port.topic, age_ns))
    return found
