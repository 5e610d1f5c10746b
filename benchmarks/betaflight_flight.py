#!/usr/bin/env python3
"""Fly a policy to goals through Betaflight's own firmware: topics, guard, driver, rate loop and mixer, our airframe.

Starts `rlstack sitl` and `rlstack up deploy`, arms, and sends goals drawn inside the guard's fence, a metre from its
sides and the floor. A goal counts if the robot comes within 0.2 m of it in time (a fifth of the robot's speed limit,
and 5 s) and stays there for 3 s. Distances are by the pose that the driver gets. The guard's takeovers are counted: on
a busy machine the policy is late, and the guard hovers. Real time: run it on a quiet machine.

    python benchmarks/betaflight_flight.py [--policy quadrotor_rates] [--goals 50] [--firmware FILE] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.bringup.robot_commands.robot_client import RobotClient
from rlstack.interfaces import topics
from rlstack.interfaces.messages import pose_message
from rlstack.robots import load_robot

MARGIN_M, NEAR_M, HELD_S = 1.0, 0.2, 3.0
ARMED_WITHIN_S = 30.0
RLSTACK = (sys.executable, "-u", "-m", "rlstack")


def started(words: list[str], until: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([*RLSTACK, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if until in line:
            return process
        print(line, end="", file=sys.stderr)
    raise SystemExit(f"rlstack {words[0]} has ended.")


class Flight:
    """Goals for one robot, and what it makes of them."""

    def __init__(self, client: RobotClient, name: str) -> None:
        self._client, self._place = client, np.full(3, np.nan)
        self.reasons: list[tuple[str, str]] = []
        self._reason = ""
        node = client.node
        for topic, hear, use in (
            (topics.EXTERNAL_POSE, self._on_pose, "sensor_in"),
            (topics.GUARD_REASON, self._on_reason, "latched"),
            (topics.GUARD_MODE, lambda message: self.reasons.append((message.data, self._reason)), "latched"),
        ):
            node.create_subscription(topics.type_of(topic), f"/{name}/{topic}", hear, topics.quality(use))
        self._goal = node.create_publisher(topics.type_of(topics.GOAL), f"/{name}/goal", topics.quality("latched"))

    def _on_pose(self, message: Any) -> None:
        p = message.pose.position
        self._place = np.array([p.x, p.y, p.z])

    def _on_reason(self, message: Any) -> None:
        self._reason = message.data

    def fly(self, goal: np.ndarray, speed_m_s: float) -> dict[str, Any]:
        """Send a goal; return whether it was reached and held, and how."""
        before, start = len(self.reasons), time.monotonic()
        allowed_s = float(np.linalg.norm(goal - self._place)) / (0.2 * speed_m_s) + 5.0
        self._goal.publish(pose_message(goal, frame=topics.WORLD_FRAME))
        reached, since, held, farthest = math.inf, math.inf, False, 0.0
        while not held and time.monotonic() < start + allowed_s + (HELD_S if math.isfinite(since) else 0.0):
            self._client.spin(0.01)
            away, now = float(np.linalg.norm(self._place - goal)), time.monotonic()
            if away > NEAR_M:
                since, farthest = math.inf, 0.0
                continue
            reached, since, farthest = min(reached, now - start), min(since, now), max(farthest, away)
            held = now - since > HELD_S
        taken = [reason for mode, reason in self.reasons[before:] if mode in ("hover", "return", "land", "disarmed")]
        return {
            "goal": [round(float(x), 2) for x in goal],
            "reached_s": round(reached, 2) if math.isfinite(reached) else None,
            "held": held,
            "farthest_m": round(farthest, 3),
            "takeovers": taken,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="quadrotor_rates")
    parser.add_argument("--robot", default="racer_rates")
    parser.add_argument("--goals", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reach", type=float, default=math.inf, help="goals at most this far from the start, m")
    parser.add_argument("--firmware", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    robot = load_robot(options.robot)
    limits = robot.limits  # type: ignore[attr-defined]
    low, high = np.array(limits.geofence_min_m) + MARGIN_M, np.array(limits.geofence_max_m) - MARGIN_M
    low[2] = max(low[2], MARGIN_M)
    low[:2], high[:2] = np.maximum(low[:2], -options.reach), np.minimum(high[:2], options.reach)
    goals = np.random.default_rng(options.seed).uniform(low, high, (options.goals, 3))
    with tempfile.TemporaryDirectory() as folder:
        chosen = ["--firmware", str(options.firmware)] if options.firmware else []
        sitl = started(["sitl", "--robot", options.robot, "--folder", folder, *chosen], "flies")
        uri = ["--backend", "betaflight", "--uri", "tcp://127.0.0.1:5761"]
        up = None
        try:
            up = started(
                ["up", "deploy", "--policy", options.policy, "--robot", options.robot, *uri, "--force"], "goal"
            )
            with RobotClient() as client:
                flight, end = Flight(client, robot.name), time.monotonic() + ARMED_WITHIN_S
                while subprocess.run([*RLSTACK, "arm", robot.name], capture_output=True).returncode:
                    if time.monotonic() > end:
                        raise SystemExit("It does not arm.")
                client.until(lambda: any(mode == "policy" for mode, _ in flight.reasons), 20.0)
                flown = []
                for goal in goals:
                    flown.append(flight.fly(goal, limits.linear_velocity_m_s))
                    print(json.dumps(flown[-1]), flush=True)
        finally:
            for process in filter(None, (up, sitl)):
                process.send_signal(signal.SIGINT)
                process.communicate()
    held = [one for one in flown if one["held"]]
    taken = sum(len(one["takeovers"]) for one in flown)
    print(f"{len(held)} of {len(flown)} goals reached and held within {NEAR_M} m for {HELD_S:g} s; {taken} takeovers")
    if options.json is not None:
        options.json.write_text(json.dumps(flown, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
