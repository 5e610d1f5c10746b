"""Recordings of a policy, made as its node and a recorder make them, and what may be wrong with them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rclpy.serialization import serialize_message

from rlstack.data.bags.bag_writer import BagTopic, BagWriter
from rlstack.interfaces import topics
from rlstack.interfaces.messages import OdometryMessage, RotorMessage, pose_message
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.nodes.policy_loop import PolicyLoop
from rlstack.nodes.policy_steps import PolicySteps
from rlstack.policies import load_policy
from rlstack.robots.spec import robot_files

SPACE = "/crazyflie"
START_NS = 1_700_000_000_000_000_000
PERIOD_NS = 10_000_000
ROBOT = load_quadrotor("crazyflie")


class Flight:
    """A policy is stepped on odometry, a message each 10 ms, and all that a recorder hears of it is kept.

    Args:
        policy: Its file.
        count: Number of observations.
        place: Returns the position at a time, s.
        reset_at: Observations before which the policy is reset, as a guard does.
    """

    def __init__(
        self,
        policy: Path,
        count: int = 60,
        place: Callable[[float], list[float]] = lambda t: [0.3 * np.sin(5.0 * t), 0.1 * t, 1.0],
        reset_at: Collection[int] = (),
    ) -> None:
        self.policy = policy
        self.messages: list[tuple[int, str, str, Any]] = []
        """Receipt, ns, topic in the namespace, type, and content."""
        loaded = load_policy(policy, robot=ROBOT)
        self.loop = PolicyLoop(loaded, latched=topics.LATCHED)
        node = SimpleNamespace(publisher=self._publisher)
        self._now_ns = START_NS
        steps = PolicySteps(node, self.loop, loaded.contract)
        self.loop.reset()
        level = np.array([0.0, 0.0, 0.0, 1.0])
        held = {"goal_position": np.array([0.0, 0.0, 1.2]), "goal_orientation": level}
        names = [port.name for port in loaded.contract.inputs]
        if "goal_position" in names:
            self.loop.on_message(topics.GOAL, 0, {name: value for name, value in held.items() if name in names})
        goal = pose_message(held["goal_position"], level, stamp_ns=0, frame="odom")
        self.add(START_NS, topics.GOAL_ACTIVE, goal)
        rotors = loaded.contract.outputs[0].element_names
        for k in range(count):
            stamp, self._now_ns = START_NS + k * PERIOD_NS, START_NS + k * PERIOD_NS + 1_000_000
            if k in reset_at:
                self.loop.restart()
            odometry = OdometryMessage(topics.type_of(topics.ODOM)(), "odom", "base_link")
            at = np.array(place(1e-2 * k), dtype=float)
            still = np.array([0.1 * np.cos(3e-2 * k), 0.0, 0.0])
            odometry.fill(stamp, at, level, still, 0.1 * still)
            self.add(self._now_ns, topics.ODOM, odometry.message)
            values = {"position": at, "orientation": level, "linear_velocity": still, "angular_velocity": 0.1 * still}
            answer = self.loop.on_message(topics.ODOM, stamp, {n: v for n, v in values.items() if n in names})
            if answer is not None:
                self._now_ns += 500_000
                command = RotorMessage(topics.type_of(topics.ROTOR_COMMAND)(), rotors)
                self.add(self._now_ns, "policy/cmd/rotors", command.fill(stamp, answer.outputs["rotor_speed"]))
                self.add(self._now_ns + 100, "cmd/rotors", command.fill(stamp, answer.outputs["rotor_speed"]))
                steps.stepped(answer)
        steps.flush()

    def add(self, at_ns: int, topic: str, message: Any) -> None:
        """Add a message."""
        kind = topics.TYPES[topic] if topic in topics.TYPES else topics.TYPES[topic.removeprefix("policy/")]
        self.messages.append((at_ns, f"{SPACE}/{topic}", kind, serialize_message(message)))

    def say(self, at_s: float, mode: str, reason: str) -> None:
        """Add a mode of the guard with its reason."""
        at_ns = START_NS + round(1e9 * at_s)
        for topic, text in ((topics.GUARD_REASON, reason), (topics.GUARD_MODE, mode)):
            self.add(at_ns, topic, topics.type_of(topic)(data=text))

    def write(self, folder: Path, *, spaces: Mapping[str, str] | None = None, without: Collection[str] = ()) -> Path:
        """Write the bag, and return it; ``without`` some topics."""
        writer = BagWriter(folder)
        kept = [one for one in self.messages if one[1].removeprefix(f"{SPACE}/") not in without]
        for name, kind in {topic: kind for _, topic, kind, _ in kept}.items():
            writer.add_topic(BagTopic(name, kind))
        sha256 = hashlib.sha256(self.policy.read_bytes()).hexdigest()
        writer.note({f"{SPACE}/policy_sha256": sha256, f"{SPACE}/robot": "crazyflie", **(spaces or {})})
        writer.attach(f"{SPACE}/robot.yaml", "application/yaml", robot_files()["crazyflie"].read_bytes())
        for number, (at_ns, topic, _, data) in enumerate(sorted(kept, key=lambda one: one[0])):
            writer.write(topic, at_ns, at_ns, number, data)
        writer.close()
        return folder

    def place_of(self, topic: str, number: int) -> int:
        """Return where in :attr:`messages` a topic's message is."""
        return [k for k, one in enumerate(self.messages) if one[1] == f"{SPACE}/{topic}"][number]

    def _publisher(self, kind: Any, topic: str, quality: str) -> Any:
        return SimpleNamespace(
            publish=lambda message: self.add(self._now_ns, topic, message), get_subscription_count=lambda: 1
        )
