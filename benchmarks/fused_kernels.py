#!/usr/bin/env python3
"""The quadrotor's step (RK4, 10 ms), forward and reverse, by rlstack.fused and by others, in one run.

A robot-step is one step of one robot; CPU-seconds are the process's. Each candidate runs in a process of its own,
twice, with a cache that is empty at first: "cold" and "warm" are the seconds from imported modules to the first step
done. What is not installed is left out: numba; a C++ compiler for torch.compile.

    python benchmarks/fused_kernels.py [--robots 4096] [--repeats 5] [--only NAME ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.sim.batch_quadrotor.layout import PARAMETER_WIDTH, PARAMETERS, STATE, STATE_WIDTH, pack_parameters
from rlstack.sim.perturbation import Perturbation

PERIOD = 0.01
Step = Callable[[], Any]


class Data:
    """N robots in flight, rows (rows, N), and the gradient that the reverse mode starts from."""

    def __init__(self, count: int) -> None:
        robot, rng = load_quadrotor("crazyflie"), np.random.default_rng(0)
        self.count = count
        state = rng.normal(size=(STATE_WIDTH, count))
        state[STATE["orientation"]] /= np.linalg.norm(state[STATE["orientation"]], axis=0)
        state[STATE["rotor_speed"]] = robot.hover_speed_rad_s * rng.uniform(0.8, 1.2, (4, count))
        state[STATE["elapsed"]] = rng.uniform(0, 1, (1, count))
        self.state = state.astype(np.float32)
        self.parameters = pack_parameters(robot, Perturbation.none(count, 4)).T.copy()
        for name, low, high in (("force", -0.01, 0.01), ("gust_force", -0.01, 0.01), ("gust_window", 0.0, 1.0)):
            self.parameters[PARAMETERS[name]] = np.sort(rng.uniform(low, high, (3, count)), axis=0)[
                : 3 - (name == "gust_window")
            ]
        self.command = (robot.hover_speed_rad_s * rng.uniform(0.8, 1.2, (4, count))).astype(np.float32)
        self.seed = rng.normal(size=(STATE_WIDTH, count)).astype(np.float32)


def fused(data: Data) -> tuple[Step, Step | None, Callable[[], Any]]:
    from rlstack.fused import GRADIENT, Kernel, zeros
    from rlstack.sim.batch_quadrotor.dynamics import QuadrotorModel, advance

    def step(state: Any, parameters: Any, command: Any) -> dict[str, Any]:
        return {"next": advance(state, parameters, [command], QuadrotorModel(PERIOD))}

    sizes = {"state": STATE_WIDTH, "parameters": PARAMETER_WIDTH, "command": 4}
    forward, reverse = Kernel(step, sizes), Kernel(step, sizes, ("state", "command"))
    arrays = {
        n: zeros(rows, data.count) for n, rows in {**reverse.inputs, **reverse.outputs, **forward.outputs}.items()
    }
    arrays["state"][:], arrays["parameters"][:], arrays["command"][:] = data.state, data.parameters, data.command
    arrays[GRADIENT + "next"][:] = data.seed
    run, back = forward.prepare(arrays), reverse.prepare(arrays)

    def both() -> None:
        run()
        back()

    return run, both, lambda: (arrays["next"], arrays[GRADIENT + "state"])


def warp(data: Data) -> tuple[Step, Step | None, Callable[[], Any]]:
    import warp as wp
    from benchmarks.quadrotor_steps import warp_step

    def array(value: Any, gradient: bool = True) -> Any:
        return wp.array(np.ascontiguousarray(value), dtype=float, device="cpu", requires_grad=gradient)

    state, parameters = array(data.state.T), array(data.parameters.T, False)
    commands = array(np.stack([data.command.T] * 2))
    after = wp.zeros_like(state, requires_grad=True)
    given = [state, parameters, commands, 0, PERIOD, 0.0, PERIOD, 0]
    run = wp.launch(warp_step.advance, data.count, given, [after], device="cpu", record_cmd=True)
    seed = np.ascontiguousarray(data.seed.T)

    def both() -> None:
        run.launch()
        for gradient in (state.grad, commands.grad):
            gradient.zero_()
        after.grad.assign(seed)
        gradients = [state.grad, None, commands.grad, 0, 0.0, 0.0, 0.0, 0]
        wp.launch(
            warp_step.advance, data.count, given, [after],
            adj_inputs=gradients, adj_outputs=[after.grad], adjoint=True, device="cpu",
        )  # fmt: skip

    return run.launch, both, lambda: (after.numpy().T, state.grad.numpy().T)


def torch_eager(data: Data, compiled: bool = False) -> tuple[Step, Step | None, Callable[[], Any]]:
    import torch
    from benchmarks.quadrotor_steps.torch_step import step

    torch.set_num_threads(1)
    function = torch.compile(step, fullgraph=True, dynamic=False) if compiled else step
    state, parameters, command, seed = map(torch.tensor, (data.state, data.parameters, data.command, data.seed))
    leaves = [state.clone().requires_grad_(), command.clone().requires_grad_()]
    last: list[Any] = [None, None]

    def run() -> None:
        with torch.no_grad():
            last[0] = function(state, parameters, command, PERIOD)

    def both() -> None:
        after = function(leaves[0], parameters, leaves[1], PERIOD)
        last[1] = torch.autograd.grad(after, leaves, seed)[0]

    return run, both, lambda: (last[0].numpy(), last[1].numpy())


def torch_compile(data: Data) -> tuple[Step, Step | None, Callable[[], Any]]:
    return torch_eager(data, compiled=True)


def numba(data: Data) -> tuple[Step, Step | None, Callable[[], Any]]:
    from benchmarks.quadrotor_steps.numba_step import step

    from rlstack.fused import zeros

    state, parameters, command = (zeros(len(a), data.count) for a in (data.state, data.parameters, data.command))
    state[:], parameters[:], command[:] = data.state, data.parameters, data.command
    after = zeros(STATE_WIDTH, data.count)
    return lambda: step(state, parameters, command, after, PERIOD), None, lambda: (after, None)


CANDIDATES = {
    "fused": (fused, "llvmlite", "rlstack.fused"),
    "numba": (numba, "numba", "numba, loop over robots"),
    "warp": (warp, "warp", "Warp kernel and its adjoint"),
    "compile": (torch_compile, "torch", "torch.compile (inductor)"),
    "eager": (torch_eager, "torch", "torch, eager"),
}


def measure(step: Step, robots: int, repeats: int) -> list[float]:
    """Return million robot-steps a CPU-second."""
    begin, calls = time.process_time(), 0
    while time.process_time() - begin < 0.3:
        step()
        calls += 1
    rates = []
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(calls):
            step()
        rates.append(robots * calls / (time.process_time() - begin) / 1e6)
    return rates


def child(name: str, robots: int, repeats: int) -> None:
    """Measure one candidate and print it as JSON."""
    data = Data(robots)
    for module in (CANDIDATES[name][1], "rlstack.sim.batch_quadrotor.simulator"):
        __import__(module)
    begin = time.perf_counter()
    forward, both, results = CANDIDATES[name][0](data)
    forward()
    if both:
        both()
    ready = time.perf_counter() - begin
    sums = [None if r is None else np.abs(r).sum(axis=1).tolist() for r in results()]
    rates = {"forward": measure(forward, robots, repeats)} if repeats else {}
    if repeats and both:
        rates["forward and reverse"] = measure(both, robots, repeats)
    print(json.dumps({"ready": ready, "sums": sums, "rates": rates}))


def candidate(name: str, robots: int, repeats: int) -> dict[str, Any]:
    """Measure one candidate with a new cache: cold, then warm."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("XDG_CACHE_HOME", "WARP_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "NUMBA_CACHE_DIR")
        environment = {**os.environ, **{n: os.path.join(folder, n.lower()) for n in names}}
        found = []
        for times in (0, repeats):
            words = [sys.executable, __file__, "--child", name, "--robots", str(robots), "--repeats", str(times)]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr[-3000:]}")
            found.append(json.loads(done.stdout.splitlines()[-1]))
    return {"cold_s": found[0]["ready"], "warm_s": found[1]["ready"], **found[1]["rates"], "sums": found[1]["sums"]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=CANDIDATES)
    parser.add_argument("--json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.robots, options.repeats)
        return
    results: dict[str, Any] = {}
    for name, (_, module, _) in CANDIDATES.items():
        compiler = name != "compile" or shutil.which("g++") or shutil.which("clang++")
        if (options.only is None or name in options.only) and find_spec(module) and compiler:
            results[name] = candidate(name, options.robots, options.repeats)
    modes = ("forward", "forward and reverse")
    first = next(iter(results.values()))
    print(f"{options.robots} robots, one thread; million robot-steps a CPU-second: median (min to max), share of first")
    print("| | forward | | forward and reverse | | cold s | warm s |\n| --- " + "| --- " * 6 + "|")
    for name, result in results.items():
        for sums, wanted in zip(result["sums"], first["sums"]):
            if sums is not None and not np.allclose(sums, wanted, rtol=2e-3):
                raise SystemExit(f"{name} computes something else: {sums} instead of {wanted}")
        cells = []
        for mode in modes:
            if mode in result:
                middle = statistics.median(result[mode])
                cells.append(f"{middle:.2f} ({min(result[mode]):.2f} to {max(result[mode]):.2f})")
                cells.append(f"{middle / statistics.median(first[mode]):.3f}")
            else:
                cells += ["-", "-"]
        print("|", " | ".join([CANDIDATES[name][2], *cells, f"{result['cold_s']:.2f}", f"{result['warm_s']:.2f}"]), "|")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
