"""N worlds of one MuJoCo model with a jointed robot each, stepped together on CPU threads or on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlstack.fused import check_device
from rlstack.robots.joints import DrivenJoint
from rlstack.sim.batch_mujoco.simulator import MujocoSimulator


def make_mujoco_simulator(
    model: Any, drives: Sequence[DrivenJoint], count: int, *, device: str = "cpu", **settings: Any
) -> MujocoSimulator:
    """Return N worlds.

    Args:
        model: The compiled ``mujoco.MjModel`` of a world.
        drives: The robot's driven joints, in the order of targets.
        count: N.
        device: ``cpu``: MuJoCo on threads; ``cuda``, ``cuda:1``: MuJoCo Warp on that GPU; ``warp:cpu``: MuJoCo Warp on
            the processor, many times slower than MuJoCo, for tests on machines without a GPU.
        settings: ``period_s``, ``varied`` and ``threads`` of :class:`.simulator.MujocoSimulator`.

    Raises:
        UserError: The device does not exist, or its library is not installed or cannot simulate the scene.
    """
    name = check_device(device)
    if name == "cpu":
        from rlstack.sim.batch_mujoco.threads import ThreadedMujocoSimulator

        return ThreadedMujocoSimulator(model, drives, count, **settings)
    from rlstack.sim.batch_mujoco.warp import WarpMujocoSimulator

    return WarpMujocoSimulator(model, drives, count, device=name, **settings)
