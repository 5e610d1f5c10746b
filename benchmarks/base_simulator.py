#!/usr/bin/env python3
"""Robot-steps per CPU-second of the batch simulator of mobile bases: lidar alone, full environment, and peers' rays.

One process, one thread. A robot-step of the lidar is one scan of one robot among 32 obstacles of its own (24 boxes,
8 circles); of the full environment it is one control period: noise, scan, way to the goal, observation of actor and
critic, dynamics with late commands, reward, collisions, robots that start anew. Actions are random, one set for all
steps. Peers cast the same number of rays at as many obstacles: MuJoCo's mj_multiRay and PyBullet's rayTestBatch, both
one scan after the other, and slabs and roots in torch, all robots at once.

    python benchmarks/base_simulator.py [--robots 4096] [--repeats 5] [--task TASK:ROBOT ...] [--device cpu]
        [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from rlstack.fused import zeros
from rlstack.robots import Lidar, load_robot
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS, STATE, STATE_WIDTH
from rlstack.sim.batch_wheeled_base.obstacle_lidar import ObstacleLidar
from rlstack.tasks import TASKS
from rlstack.training.benchmarks.timing import rate

RAYS, BOXES, CIRCLES = 64, 24, 8
RANGE_M = 0.12, 8.0
ANGLES = np.linspace(-np.pi, np.pi, RAYS, endpoint=False)
EXTENT_M = 5.0

Array = np.ndarray[Any, Any]


def scene(count: int, device: str) -> tuple[Any, Any, Any]:
    """Return states, boxes and circles of ``count`` robots among random obstacles."""
    rng = np.random.default_rng(0)
    heading, half = rng.uniform(-np.pi, np.pi, count), 0.5
    state = np.zeros((STATE_WIDTH, count))
    state[STATE["position"]] = rng.uniform(-EXTENT_M, EXTENT_M, (2, count))
    state[STATE["turn"]] = np.sin(half * heading), np.cos(half * heading)
    boxes, circles = np.zeros((BOXES, BOX_ROWS, count)), np.zeros((CIRCLES, CIRCLE_ROWS, count))
    boxes[:, :2] = rng.uniform(-EXTENT_M, EXTENT_M, (BOXES, 2, count))
    yaw = rng.uniform(-np.pi, np.pi, (BOXES, count))
    boxes[:, 2], boxes[:, 3] = np.cos(yaw), np.sin(yaw)
    boxes[:, 4:] = rng.uniform(0.05, 0.6, (BOXES, 2, count))
    circles[:, :2] = rng.uniform(-EXTENT_M, EXTENT_M, (CIRCLES, 2, count))
    circles[:, 2] = rng.uniform(0.05, 0.4, (CIRCLES, count))
    rows = []
    for array in (state, boxes.reshape(-1, count), circles.reshape(-1, count)):
        rows.append(torch.as_tensor(zeros(len(array), count, device)))
        rows[-1].copy_(torch.from_numpy(array))
    return rows[0], rows[1], rows[2]


def ours(count: int, device: str, rays: int = RAYS, **noise: float) -> Callable[[], None]:
    """Return a scan of all robots."""
    low, high = RANGE_M
    file = Lidar(rays=rays, rate_hz=10.0, range_min_m=low, range_max_m=high, **noise)
    lidar = ObstacleLidar(file, BOXES, CIRCLES, device=device)
    normals = torch.as_tensor(zeros(rays, count, device)).normal_()
    return lidar.prepare(*scene(count, device), torch.as_tensor(zeros(rays, count, device)), normals)


def in_torch(count: int, device: str) -> Callable[[], Any]:
    """Return the same scan by slabs and roots, an array for every operation."""
    state, boxes, circles = (array.clone() for array in scene(count, device))
    (x, y), (z, w) = state[STATE["position"]], state[STATE["turn"]]
    cx, cy, c, s, half_x, half_y = boxes.reshape(BOXES, BOX_ROWS, 1, count).unbind(1)
    px, py, radius = circles.reshape(CIRCLES, CIRCLE_ROWS, 1, count)[:, :3].unbind(1)
    angles = torch.from_numpy(ANGLES).float().to(device)[:, None]

    def scan() -> Any:
        along = 2.0 * torch.atan2(z, w) + angles
        ux, uy = along.cos(), along.sin()
        at_x, at_y = c * (x - cx) + s * (y - cy), c * (y - cy) - s * (x - cx)
        over_x, over_y = 1.0 / (c * ux + s * uy), 1.0 / (c * uy - s * ux)
        x1, x2 = (-half_x - at_x) * over_x, (half_x - at_x) * over_x
        y1, y2 = (-half_y - at_y) * over_y, (half_y - at_y) * over_y
        enters = torch.maximum(torch.minimum(x1, x2), torch.minimum(y1, y2))
        leaves = torch.minimum(torch.maximum(x1, x2), torch.maximum(y1, y2))
        reach = torch.where((enters <= leaves) & (leaves >= 0.0), enters.clamp(min=0.0), RANGE_M[1]).amin(0)
        dx, dy = px - x, py - y
        ahead, outside = ux * dx + uy * dy, dx * dx + dy * dy - radius * radius
        root = ahead * ahead - outside
        met = torch.where((root >= 0.0) & (ahead > 0.0), ahead - root.clamp(min=0.0).sqrt(), RANGE_M[1])
        return torch.minimum(reach, torch.where(outside <= 0.0, 0.0, met).amin(0)).clamp(*RANGE_M)

    return scan


def stands(count: int) -> Iterator[tuple[str, Array, float, Array]]:
    """Yield one robot's obstacles: kind, centre x and y, yaw, half extents."""
    _, boxes, circles = (array.numpy().astype(float) for array in scene(count, "cpu"))
    for cx, cy, c, s, *half in boxes[:, 0].reshape(BOXES, BOX_ROWS):
        yield "box", np.array([cx, cy]), float(np.arctan2(s, c)), np.array([*half, 1.0])
    for cx, cy, radius, *_ in circles[:, 0].reshape(CIRCLES, CIRCLE_ROWS):
        yield "cylinder", np.array([cx, cy]), 0.0, np.array([radius, 1.0, 0.0])


def in_mujoco(count: int) -> Callable[[], None]:
    """Return one scan of one robot."""
    import mujoco

    spec = mujoco.MjSpec()
    kinds = {"box": mujoco.mjtGeom.mjGEOM_BOX, "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER}
    for kind, (x, y), yaw, size in stands(count):
        turn = [np.cos(0.5 * yaw), 0.0, 0.0, np.sin(0.5 * yaw)]
        spec.worldbody.add_geom(type=kinds[kind], size=size, pos=[x, y, 0.0], quat=turn)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    ways = np.stack([np.cos(ANGLES), np.sin(ANGLES), np.zeros(RAYS)], axis=1).ravel()
    geom, reach = np.zeros(RAYS, np.int32), np.zeros(RAYS)
    given = [model, data, np.zeros(3), ways, None, 1, -1, geom, reach]
    try:
        mujoco.mj_multiRay(*given, None, RAYS, RANGE_M[1])  # from 3.5 on it also tells normals
        given.append(None)
    except TypeError:
        pass
    return lambda: mujoco.mj_multiRay(*given, RAYS, RANGE_M[1])


def in_bullet(count: int) -> Callable[[], object]:
    """Return one scan of one robot."""
    import pybullet
    from pybullet_utils.bullet_client import BulletClient

    world = BulletClient(connection_mode=pybullet.DIRECT)
    for kind, (x, y), yaw, size in stands(count):
        if kind == "box":
            shape = world.createCollisionShape(pybullet.GEOM_BOX, halfExtents=size)
        else:
            shape = world.createCollisionShape(pybullet.GEOM_CYLINDER, radius=size[0], height=2.0 * size[1])
        world.createMultiBody(0.0, shape, -1, [x, y, 0.0], world.getQuaternionFromEuler([0.0, 0.0, yaw]))
    ends = RANGE_M[1] * np.stack([np.cos(ANGLES), np.sin(ANGLES), np.zeros(RAYS)], axis=1)
    starts = np.zeros((RAYS, 3))
    return lambda: world.rayTestBatch(starts, ends, numThreads=1)


def environment(name: str, count: int, device: str) -> tuple[Callable[[], object], float, str]:
    """Return a step of the full environment of TASK:ROBOT, the seconds until the first was done, and what is in it."""
    begin = time.perf_counter()
    task, _, robot = name.partition(":")
    settings = TASKS.load(task)()
    base = settings.reference(load_robot(robot))
    made: Any = settings.environment(base, settings.pipeline(base), count, device, 0)
    actions = torch.rand(count, made.pipeline.action_size, generator=torch.Generator().manual_seed(0)) * 2.0 - 1.0
    actions = actions.to(made.device)
    made.observe()
    made.step(actions)
    said = robot
    if hasattr(settings, "obstacles"):
        said = f"{len(made.task_step.rays)} rays, {sum(settings.obstacles)} obstacles, {robot}"
    return lambda: made.step(actions), time.perf_counter() - begin, said


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--task", nargs="*", default=["base_navigation:turtlebot3_burger"], metavar="TASK:ROBOT")
    parser.add_argument("--device", default="cpu", help="on CUDA wall seconds are counted instead of CPU-seconds")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    count, device = options.robots, options.device
    cuda = device.startswith("cuda")
    wait = torch.cuda.synchronize if cuda else None
    seconds, repeats = options.seconds, options.repeats
    rows: dict[str, dict[str, float]] = {}

    def add(title: str, call: Callable[[], object], done: int = count) -> None:
        with torch.inference_mode():
            rows[title] = rate(call, done, seconds, repeats, wait)["per_second" if cuda else "per_cpu_second"]

    add(f"lidar, {RAYS} rays", ours(count, device))
    add("lidar, noise", ours(count, device, noise_m=0.01))
    add("lidar, 360 rays, noise, dropouts", ours(count, device, 360, noise_m=0.01, dropout=0.01))
    add("torch, slabs and roots", in_torch(min(count, 512), device), min(count, 512))
    if not cuda:
        add("MuJoCo mj_multiRay", in_mujoco(count), 1)
        add("PyBullet rayTestBatch", in_bullet(count), 1)
    ready = {}
    for name in options.task:
        step, took, said = environment(name, count, device)
        ready[name] = took
        add(f"{name.partition(':')[0]} ({said})", step)

    unit = "second" if cuda else "CPU-second"
    print(f"{count} robots on {device}, {BOXES + CIRCLES} obstacles; thousand robot-steps a {unit}:\n")
    print(f"{'':64}{'median':>9}{'least':>9}{'most':>9}")
    for name, found in rows.items():
        print(f"{name:64}" + "".join(f"{found[key] / 1e3:9.1f}" for key in ("median", "least", "most")))
    for name, took in ready.items():
        print(f"\n{name}: first step after {took:.1f} s, maps and compiling included")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak memory of the whole process, PyTorch, MuJoCo and PyBullet included: {memory:.0f} MiB")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"robots": count, "device": device, "rates": rows, "first_step_s": ready}, file, indent=2)


if __name__ == "__main__":
    main()
