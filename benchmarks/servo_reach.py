#!/usr/bin/env python3
"""An SO-100 on an emulated Feetech bus beside the same arm in the simulator: where the tool ends, with one policy.

    rlstack train arm_reach --robot so100
    python benchmarks/servo_reach.py runs/arm_reach-001/policy.onnx [--goals 5] [--seconds 5]

Both arms run as they are deployed: robot node, policy node and guard as processes, by topics. The servos carry the
weight of the robot file's arm (MuJoCo), and their bus takes the time of its bytes at 1 Mbaud. Printed are, for each
goal, the distance of the tool from it in both, and how far apart the two tools are, over the last half second.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.peers._servos import Weighing
from tests.support.peers.feetech import FeetechPeer
from tests.support.ros import Listener, NodeProcess, nodes

from rlstack.interfaces import topics
from rlstack.interfaces.messages import pose_message
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.robots.kinematics import chain_of, tool_motion

ROBOT = Manipulator.load("so100")
SETTLED_S = 0.5


def tool(joints: Any) -> np.ndarray:
    chain = chain_of(ROBOT)
    return np.asarray(tool_motion(chain.screws, np.asarray(joints)[None, list(chain.index)]).position[0])


def servo_joints(peer: FeetechPeer) -> list[float]:
    """Return where the servos are, as joints, by their memory."""
    middles = [0.5 * (joint.lower + joint.upper) for joint in ROBOT.drives]
    ticks = [servo.word(56) - 0.5 * (servo.word(9) + servo.word(11)) for servo in peer.servos]
    return [middle + 2.0 * math.pi * tick / 4096 for middle, tick in zip(middles, ticks)]


def reached(backend: str, policy: Path, goals: list[np.ndarray], seconds: float) -> list[np.ndarray]:
    """Return where the tool ends for each goal."""
    peer = FeetechPeer(ROBOT, move=Weighing(ROBOT)) if backend == "feetech" else None
    found = []
    with peer or nullcontext():
        where = {"uri": peer.uri} if peer is not None else {}
        started = (
            NodeProcess("robot", robot="so100", backend=backend, **where),
            NodeProcess("guard", robot="so100", auto_arm=True, staleness_s=0.5),
            NodeProcess("policy", robot="so100", policy=policy),
        )
        listener = Listener()
        with nodes(*started):
            heard, modes = listener.hear(topics.JOINT_STATES, "sensor_in"), listener.hear(topics.GUARD_MODE, "latched")
            kind, latched = topics.type_of(topics.GOAL), topics.quality("latched")
            publisher = listener.node.create_publisher(kind, topics.GOAL, latched)
            listener.until(lambda: heard, "joint states", 60.0)
            for goal in goals:
                message = pose_message(goal, np.array([0.0, 0.0, 0.0, 1.0]), stamp_ns=0, frame="odom")
                publisher.publish(message)
                listener.until(lambda: modes and modes[-1].data == "policy", "the policy", 60.0)
                listener.spin(seconds)
                ends, end = [], time.monotonic() + SETTLED_S
                while time.monotonic() < end:
                    listener.spin(0.02)
                    ends.append(tool(servo_joints(peer) if peer is not None else heard[-1].position))
                found.append(np.mean(ends, axis=0))
            print(f"{backend}: the guard's modes: {', '.join(dict.fromkeys(mode.data for mode in modes))}")
        listener.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path)
    parser.add_argument("--goals", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    random = np.random.default_rng(7)
    low, high = np.array([0.16, -0.12, 0.06]), np.array([0.28, 0.12, 0.2])
    goals = [low + (high - low) * random.random(3) for _ in range(options.goals)]
    both = [reached(backend, options.policy.resolve(), goals, options.seconds) for backend in ("mujoco", "feetech")]
    apart = []
    for goal, simulated, real in zip(goals, *both):
        apart.append(1e3 * math.dist(simulated, real))
        errors = [1e3 * math.dist(goal, one) for one in (simulated, real)]
        print(
            f"goal {np.round(goal, 3).tolist()}: simulator {errors[0]:.2f} mm, bus {errors[1]:.2f} mm, apart"
            f" {apart[-1]:.2f} mm"
        )
    print(f"most apart: {max(apart):.2f} mm ({sum(one <= 2.0 for one in apart)} of {len(apart)} within 2 mm)")


if __name__ == "__main__":
    main()
