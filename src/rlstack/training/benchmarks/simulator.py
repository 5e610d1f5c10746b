"""The batch simulator alone: control periods per second, and the integration error of one RK4 step per period."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.fused import Kernel, check_device, zeros
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.sim.batch_quadrotor.dynamics import QuadrotorModel, advance
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, STATE, STATE_WIDTH, pack_parameters, pack_state
from rlstack.sim.batch_quadrotor.simulator import QuadrotorSimulator
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.sampling import Starts
from rlstack.training.benchmarks.accuracy import KINDS, PERIODS, departure
from rlstack.training.benchmarks.timing import rate

LATE_S = 0.05
"""Range of command delays, if simulated."""


def measure(robots: int, seconds: float, repeats: int, device: str, flights: int) -> dict[str, Any]:
    """Return the rate, ``first_step_s`` (time to the first step, including compilation) and the departure.

    ``late`` is the rate with the simulator's default, delayed commands (:data:`LATE_S`); the others have no delay, like
    the peers and the hover task.

    Args:
        robots: Number of robots in parallel.
        seconds: Duration of each measurement.
        repeats: Number of measurements.
        device: ``cpu`` or a CUDA device.
        flights: Flights of random commands to compare with the fine solution; 0: none.
    """
    robot = load_quadrotor("crazyflie")
    begin = time.perf_counter()
    step, wait = stepper(robot, robots, device, 0.0)
    step()
    wait()
    first = time.perf_counter() - begin
    late, _ = stepper(robot, robots, device, LATE_S)
    found = {"first_step_s": first, **rate(step, robots, seconds, repeats, wait)}
    found["late"] = rate(late, robots, seconds, repeats, wait)
    return {**found, "departure": against_fine(robot, flights)} if flights else found


def hovering(robot: Quadrotor, count: int) -> dict[str, NDArray[np.float64]]:
    """Return ``count`` robots at rest at the origin with their rotors at hover speed."""
    none, level = np.zeros((count, 3)), np.zeros((count, 4))
    level[:, 3] = 1.0
    return {
        "position": none,
        "orientation": level,
        "linear_velocity": none,
        "angular_velocity": none,
        "rotor_speed": np.full((count, len(robot.rotors)), robot.hover_speed_rad_s),
    }


def moving(robot: Quadrotor, count: int) -> dict[str, NDArray[np.float64]]:
    """Return ``count`` robots in starts of the hover task: at rest, denormal numbers would slow the processor."""
    return Starts().sample(np.random.default_rng(0), count, robot)


def stepper(
    robot: Quadrotor, count: int, device: str, late_s: float
) -> tuple[Callable[[], None], Callable[[], object]]:
    """Return one control period of ``count`` robots with commands up to ``late_s`` late, and a wait for it."""
    name = check_device(device)
    return (on_cpu(robot, count, late_s), lambda: None) if name == "cpu" else on_gpu(robot, count, name, late_s)


def on_cpu(robot: Quadrotor, count: int, late_s: float) -> Callable[[], None]:
    """Return a step of the simulator's public interface."""
    simulator = QuadrotorSimulator(robot, count, max_delay_s=late_s)
    simulator.set_state(moving(robot, count))
    for command in simulator.commands:
        command[:] = robot.hover_speed_rad_s
    return simulator.advance


def on_gpu(robot: Quadrotor, count: int, device: str, late_s: float) -> tuple[Callable[[], None], Callable[[], object]]:
    """Return a step of the same function on another device, and a function that waits for it."""
    model = QuadrotorModel(1.0 / robot.control_rate_hz, max_delay_s=late_s)
    kernel, arrays = _compiled(robot, count, model, device)
    _fill(arrays["state"], pack_state(moving(robot, count)).T)
    for name in arrays.keys() - {"state", "parameters", "next"}:
        _fill(arrays[name], np.full((len(robot.rotors), count), robot.hover_speed_rad_s, np.float32))
    there = kernel.prepare(arrays)
    back = kernel.prepare({**arrays, "state": arrays["next"], "next": arrays["state"]})
    turns = [there, back]

    def step() -> None:
        turns[0]()
        turns.reverse()

    if not device.startswith("cuda"):
        return step, lambda: None
    import torch

    return step, torch.cuda.synchronize


def _compiled(
    robot: Quadrotor, count: int, model: QuadrotorModel, device: str = "cpu", dtype: str = "float32"
) -> tuple[Kernel, dict[str, Any]]:
    """Return one step of the dynamics as a kernel, and its arrays: ``parameters``, ``command_0``, ... and from
    ``state`` to ``next``."""
    names = [f"command_{k}" for k in range(model.past_commands + 1)]

    def once(state: Any, parameters: Any, **commands: Any) -> dict[str, Any]:
        return {"next": advance(state, parameters, [commands[name] for name in names], model)}

    rows = {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, **dict.fromkeys(names, len(robot.rotors))}
    arrays = {name: zeros(width, count, device, dtype) for name, width in {**rows, "next": STATE_WIDTH}.items()}
    _fill(arrays["parameters"], pack_parameters(robot, Perturbation.none(count, len(robot.rotors))).T)
    return Kernel(once, rows, device=device, dtype=dtype), arrays


def _fill(array: Any, rows: NDArray[np.float32]) -> None:
    if isinstance(array, np.ndarray):
        array[:] = rows
    else:
        import torch

        array.copy_(torch.from_numpy(np.ascontiguousarray(rows)))


def against_fine(robot: Quadrotor, flights: int, substeps: int = 50) -> dict[str, dict[str, float]]:
    """Return by kind of commands the largest departure of any flight from the same dynamics in float64 and fine steps.

    Args:
        robot: The quadrotor.
        flights: Number of flights of each kind.
        substeps: RK4 steps per control period of the fine solution.
    """
    hover, top = robot.hover_speed_rad_s, robot.rotor_model.speed_max_rad_s
    period = 1.0 / robot.control_rate_hz
    kernel, arrays = _compiled(robot, flights, QuadrotorModel(period / substeps), dtype="float64")
    fine = kernel.prepare(arrays)
    found = {}
    for kind, (low, high) in KINDS.items():
        commands = np.random.default_rng(0).uniform(low * hover, min(high * hover, top), (PERIODS, flights, 4))
        simulator = QuadrotorSimulator(robot, flights)
        simulator.set_state(hovering(robot, flights))
        arrays["state"][:] = pack_state(hovering(robot, flights)).T
        pairs = []
        for command in commands.astype(np.float32):
            simulator.step(command)
            arrays["command_0"][:] = command.T
            for _ in range(substeps):
                fine()
                arrays["state"][:] = arrays["next"]
            state = simulator.state()
            p, q = (arrays["state"][STATE[name]].T.copy() for name in ("position", "orientation"))
            pairs.append((state["position"], state["orientation"], p, q))
        found[kind] = departure(pairs)
    return found
