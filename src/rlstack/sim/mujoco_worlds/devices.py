"""Selection of the stepping backend of MuJoCo worlds by device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlstack.fused import check_device
from rlstack.robots.joints import DrivenJoint
from rlstack.sim.mujoco_worlds.worlds import MujocoWorlds


def make_worlds(
    model: Any,
    drives: Sequence[DrivenJoint],
    count: int,
    *,
    period_s: float,
    varied: bool = False,
    device: str = "cpu",
    threads: int | None = None,
) -> MujocoWorlds:
    """Return N worlds; see :class:`rlstack.sim.mujoco_worlds.worlds.MujocoWorlds`.

    Args:
        model: The compiled ``mujoco.MjModel`` of a world.
        drives: The robot's driven joints, in the order of targets.
        count: N.
        period_s: Control period.
        varied: Whether each world has its own model.
        device: ``cpu``: MuJoCo on threads; ``cuda``, ``cuda:1``: MuJoCo Warp on that GPU; ``warp:cpu``: MuJoCo Warp on
            the processor, many times slower than MuJoCo, for tests on machines without a GPU.
        threads: Number of CPU threads; None: one per core.

    Raises:
        UserError: The device does not exist, or its library is not installed or cannot simulate the scene.
    """
    name = check_device(device)
    if name == "cpu":
        from rlstack.sim.mujoco_worlds.threaded import ThreadedWorlds

        return ThreadedWorlds(model, drives, count, period_s=period_s, varied=varied, threads=threads)
    from rlstack.sim.mujoco_worlds.warped import WarpedWorlds

    return WarpedWorlds(model, drives, count, period_s=period_s, varied=varied, device=name)
