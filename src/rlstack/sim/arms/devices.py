"""What steps the worlds of arms, by the device that they are asked for on."""

from __future__ import annotations

from rlstack.fused import check_device
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.sim.arms.scene import Build
from rlstack.sim.arms.worlds import ArmWorlds


def arm_worlds(
    robot: Manipulator,
    build: Build | None,
    count: int,
    *,
    period_s: float,
    varied: bool = False,
    device: str = "cpu",
    threads: int | None = None,
) -> ArmWorlds:
    """Return N worlds; see :class:`rlstack.sim.arms.worlds.ArmWorlds`.

    Args:
        robot: The arm.
        build: Adds what is handled.
        count: N.
        period_s: Control period.
        varied: Whether each world has a model of its own.
        device: ``cpu``: MuJoCo on threads; ``cuda``, ``cuda:1``: MuJoCo Warp on that GPU; ``warp:cpu``: MuJoCo Warp on
            the processor, many times slower than MuJoCo, for tests on machines without a GPU.
        threads: On the CPU; None: as many as there are cores.

    Raises:
        UserError: The device is not there, what it needs is not installed or cannot simulate the scene, or the robot's
            model is missing or not what its file says.
    """
    name = check_device(device)
    if name == "cpu":
        from rlstack.sim.arms.threaded import ThreadedWorlds

        return ThreadedWorlds(robot, build, count, period_s=period_s, varied=varied, threads=threads)
    from rlstack.sim.arms.warped import WarpedWorlds

    return WarpedWorlds(robot, build, count, period_s=period_s, varied=varied, device=name)
