#!/usr/bin/env python3
"""Feed malformed and hostile messages to every subscription of every node, and count what a node does not survive.

Each system (quadrotor, base, arm, quadruped) runs its real nodes in this process for a moment, and the messages on its
topics are kept. Then each subscription gets mutations of them, as its executor would serve them: cut short, bytes
replaced, lengths beyond the end, numbers that are not finite or huge, another message's bytes, another encoding. A
message that is refused is fine, and so is one that is used. A failure is any exception that would end the node, a
message that takes longer than a second, or more than 1 GB of memory.

    python benchmarks/malformed_messages.py [--messages 2000] [--systems quadrotor base arm quadruped] [--seed 0]

--messages counts mutations for each subscription. The exit status is 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import random
import resource
import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rclpy
from rclpy.serialization import serialize_message

from rlstack.errors import MalformedMessage
from rlstack.interfaces import cdr, topics
from rlstack.nodes.executor import ControlExecutor
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.map import MapNode
from rlstack.nodes.people import PeopleNode
from rlstack.nodes.planner import PlannerNode
from rlstack.nodes.policy import PolicyNode
from rlstack.nodes.robot import RobotNode
from rlstack.nodes.runtime import ManagedNode, prepare_environment
from rlstack.nodes.shutdown import shut_down
from rlstack.nodes.teleop_arm import TeleopArmNode
from rlstack.resources import find_resource

SLOW_S, LARGEST_BYTES = 1.0, 1_000_000_000
NUMBERS = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e-320)
LENGTHS = (0xFFFFFFFF, 0x7FFFFFFF, 1 << 28, 1 << 16, 0)


def systems() -> dict[str, list[tuple[type[ManagedNode], dict[str, Any]]]]:
    """Return each system's nodes with their parameters."""

    def deployed(robot: str, policy: str) -> list[tuple[type[ManagedNode], dict[str, Any]]]:
        file = find_resource(f"policies/{policy}/policy.onnx")
        nodes: list[tuple[type[ManagedNode], dict[str, Any]]] = [
            (RobotNode, {"robot": robot, "backend": "mujoco"}),
            (GuardNode, {"robot": robot, "auto_arm": True}),
        ]
        return (
            [*nodes, (PolicyNode, {"policy": str(file), "robot": robot, "goal_position": [0.4, 0.0, 0.5]})]
            if file
            else nodes
        )

    base = "turtlebot3_burger"
    return {
        "quadrotor": deployed("crazyflie", "quadrotor_hover"),
        "base": [
            *deployed(base, "base_navigation"),
            (MapNode, {"robot": base}),
            (PeopleNode, {"robot": base}),
            (PlannerNode, {"robot": base}),
        ],
        "arm": [*deployed("panda", "arm_reach"), (TeleopArmNode, {"robot": "panda"})],
        "quadruped": deployed("go1", ""),
    }


def mutated(sample: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Return a mutation of a message."""
    data = bytearray(sample)
    kind = chance.randrange(7)
    if kind == 0:
        return bytes(data[: chance.randrange(len(data) + 1)])
    if kind == 1:
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif kind == 2 and len(data) >= 8:
        struct.pack_into("<I", data, 4 * chance.randrange(1, len(data) // 4), chance.choice(LENGTHS))
    elif kind == 3 and len(data) >= 20:
        struct.pack_into("<d", data, 4 + 8 * chance.randrange((len(data) - 4) // 8), chance.choice(NUMBERS))
    elif kind == 4:
        return chance.choice(others)
    elif kind == 5:
        data[:4] = bytes(chance.choice(((0, 0), (0, 2), (0, 3), (0, 10), (9, 9)))) + data[2:4]
    else:
        return bytes(data) + chance.randbytes(chance.randrange(1, 64))
    return bytes(data)


def fill(message: Any, chance: random.Random, depth: int = 0) -> Any:
    """Return the message with two elements in each list and text in each string, for topics that were silent."""
    for (name, _), kind in zip(message.get_fields_and_field_types().items(), message.SLOT_TYPES):
        described, item = type(kind).__name__, getattr(kind, "value_type", None)
        if described == "NamespacedType":
            fill(getattr(message, name), chance, depth + 1)
        elif described == "UnboundedString":
            setattr(message, name, "odom")
        elif described == "UnboundedSequence" and type(item).__name__ == "NamespacedType" and depth < 3:
            made = getattr(importlib.import_module(".".join(item.namespaces)), item.name)
            setattr(message, name, [fill(made(), chance, depth + 1) for _ in range(2)])
        elif described == "UnboundedSequence" and type(item).__name__ == "UnboundedString":
            setattr(message, name, ["a", "b"])
        elif described == "UnboundedSequence" and type(item).__name__ == "BasicType":
            with contextlib.suppress(Exception):
                setattr(message, name, [1.0, 2.0] if item.typename in ("float", "double") else [1, 2])
    return message


@contextlib.contextmanager
def running(nodes: list[tuple[type[ManagedNode], dict[str, Any]]]) -> Iterator[tuple[Any, list[ManagedNode]]]:
    """Start nodes in one context and executor."""
    context = rclpy.Context()
    rclpy.init(context=context)
    executor = ControlExecutor(context=context)
    made: list[ManagedNode] = []
    try:
        for kind, parameters in nodes:
            node = kind(overrides=parameters, context=context)
            made.append(node)
            executor.add_node(node)
            node.start()
        yield executor, made
    finally:
        for node in made:
            node.stop()
        executor.shutdown()
        shut_down(*made)
        rclpy.try_shutdown(context=context)


def resident_bytes() -> int:
    """Return this process's resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def attack(executor: Any, nodes: list[ManagedNode], count: int, seed: int) -> tuple[int, Counter[str]]:
    """Send ``count`` mutations to each subscription; return how many were sent, and the failures."""
    kept: dict[str, bytes] = {}
    subscriptions = [(node, s) for node in nodes for s in node.subscriptions]
    spy = rclpy.create_node("spy", context=nodes[0].context)
    executor.add_node(spy)
    for name, kind in {s.topic_name: s.msg_type for _, s in subscriptions}.items():
        keep = lambda data, name=name: kept.__setitem__(name, data)  # noqa: E731
        spy.create_subscription(kind, name, keep, topics.quality("sensor_in"), raw=True)
    end = time.monotonic() + 3.0
    executor.spin_while(lambda: time.monotonic() < end)
    chance, sent, failures = random.Random(seed), 0, Counter[str]()
    before = resident_bytes()  # a process that ran other tests before may have gigabytes
    for node, subscription in subscriptions:
        name, kind = subscription.topic_name, subscription.msg_type
        sample = kept.get(name) or bytes(serialize_message(fill(kind(), chance)))
        others = [data for other, data in kept.items() if other != name] or [b""]
        for _ in range(count):
            data, began = mutated(sample, others, chance), time.monotonic()
            sent += 1
            try:
                message = data if subscription.raw else cdr.deserialize(data, kind)
                subscription.callback(message)
            except MalformedMessage:
                pass
            except Exception as error:
                failures[f"{type(node).__name__} {name}: {type(error).__name__}: {str(error)[:100]}"] += 1
            if time.monotonic() - began > SLOW_S:
                failures[f"{type(node).__name__} {name}: {time.monotonic() - began:.1f} s for one message"] += 1
        grown = resident_bytes() - before
        if grown > LARGEST_BYTES:
            failures[f"{type(node).__name__} {name}: {grown / 1e9:.1f} GB more resident"] += 1
    spy.destroy_node()
    return sent, failures


def main() -> int:
    """Attack each system and print what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--systems", nargs="+", default=["quadrotor", "base", "arm", "quadruped"])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    prepare_environment()
    failed = 0
    for name in given.systems:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with contextlib.redirect_stdout(io.StringIO()), running(systems()[name]) as (executor, nodes):
            sent, failures = attack(executor, nodes, given.messages, given.seed)
            ears = sum(len(list(node.subscriptions)) for node in nodes)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000.0
        print(f"{name}: {sent} messages to {ears} subscriptions of {len(nodes)} nodes, {grown:.0f} MB more memory")
        for what, times in failures.most_common():
            print(f"  {times} x {what}")
        failed += sum(failures.values())
    print(f"{failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
