"""Policy files in other people's simulators, each in an environment of its own that has nothing of rlstack.

    python benchmarks/foreign_simulators.py [--policy NAME=FILE ...] [--simulators NAME ...] [--trials 200]

The names are tasks: quadrotor_hover, quadrotor_foundation, base_navigation, base_crowd_crowdnav, arm_reach. A policy
runs in every simulator below of its kind, from the task's held-out starts (on its held-out maps), with that
simulator's parameters as they are ("theirs") and with those of the policy's robot ("ours"), without and with
observations that are late. The process that simulates runs the file with numpy and onnxruntime alone
(benchmarks/foreign_simulators/policy_file.py); starts, maps and the robot's numbers come to it in a JSON file. Flights
are made in rlstack's own batch simulator, too.

Environments are made on first use, with the versions below, in --environments (a folder for each). l2f compiles for
minutes and needs 5 GB of memory. gym-pybullet-drones is not on PyPI: clone it, and give its folder with
--gym-pybullet-drones; without it that simulator is left out, and said to be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from foreign_trials import JOBS, SEED, flights

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor

FOLDER = Path(__file__).with_suffix("")
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
RUNTIME, NUMPY = "onnxruntime==1.31.1", "numpy==2.4.6"
"""What a policy file needs; robosuite needs an older numpy."""
DELAYS_S = {
    "quadrotor": (0.0, 0.01, 0.02, 0.03),
    "wheeled_base": (0.0, 0.2),
    "crowd": (0.0, 0.25, 0.5),
    "manipulator": (0.0, 0.1),
}
"""Age of what is seen, by kind of trial: odometry; the scan; people; joints."""
CHECKOUT, HOME = "gym-pybullet-drones", "rlstack"


@dataclass(frozen=True)
class Simulator:
    """Somebody's simulator.

    Args:
        kind: The kind of trial.
        script: In benchmarks/foreign_simulators.
        packages: What its environment has besides :data:`RUNTIME`.
        tasks: Tasks whose policies run in it.
        parameters: Whose numbers, in the script's words.
        most: Greatest number of trials, where it is slow.
    """

    kind: str
    script: str
    packages: tuple[str, ...]
    tasks: tuple[str, ...]
    parameters: tuple[str, ...]
    most: int = 10_000


FLIGHTS, FLOWN = ("quadrotor_hover", "quadrotor_foundation"), ("theirs", "theirs, by thrust", "ours")
SIMULATORS = {
    HOME: Simulator("quadrotor", "", (), FLIGHTS, ("ours",)),
    "l2f": Simulator("quadrotor", "fly_l2f.py", ("l2f==2.0.18",), FLIGHTS, ("theirs", "their family", "ours")),
    "crazyflow": Simulator("quadrotor", "fly_crazyflow.py", ("crazyflow==0.4.0", "jax==0.10.1"), FLIGHTS, FLOWN),
    CHECKOUT: Simulator(
        "quadrotor",
        "fly_gym_pybullet_drones.py",
        (
            *("pybullet==3.2.7", "gymnasium==1.4.0", "scipy==1.17.1", "transforms3d==0.4.2"),
            *("pillow==13.0.0", "setuptools==80.9.0"),
        ),
        FLIGHTS,
        ("theirs", "theirs with our lag", "ours"),
        most=100,
    ),
    "ir-sim": Simulator(
        "wheeled_base", "drive_ir_sim.py", ("ir-sim==2.12.0",), ("base_navigation",), ("theirs", "ours"), 100
    ),
    "pyrvo": Simulator(
        "crowd",
        "drive_pyrvo.py",
        ("pyrvo==0.4.3",),
        ("base_crowd_crowdnav",),
        ("robot not seen", "robot seen"),
    ),
    "panda-gym": Simulator(
        "manipulator",
        "reach_panda_gym.py",
        ("panda-gym==3.0.7", "pybullet==3.2.7", "gymnasium==1.4.0", "scipy==1.17.1"),
        ("arm_reach",),
        ("theirs", "ours"),
    ),
    "robosuite": Simulator(
        "manipulator",
        "reach_robosuite.py",
        ("numpy==1.26.4", "robosuite==1.5.2", "mujoco==3.3.7"),
        ("arm_reach",),
        ("theirs", "ours"),
        100,
    ),
}


def environment(name: str, folder: Path, checkout: Path | None) -> tuple[Path, dict[str, str]]:
    """Return the Python of a simulator's environment, made if it is not there, and variables that it needs.

    Raises:
        UserError: A package cannot be installed.
    """
    simulator, home = SIMULATORS[name], folder / name
    python, done = home / "bin" / "python", home / "installed.txt"
    older = any(package.startswith("numpy==") for package in simulator.packages)
    packages = [RUNTIME, *([] if older else [NUMPY]), *simulator.packages]
    if not done.exists() or done.read_text().split() != packages:
        print(f"{name}: installing {' '.join(packages)} into {home}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        tried = subprocess.run([python, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True)
        if tried.returncode:
            raise UserError(f"{name} cannot be installed: {tried.stderr.strip().splitlines()[-1]}")
        done.write_text("\n".join(packages))
    if name != CHECKOUT:
        return python, {"JAX_COMPILATION_CACHE_DIR": str(home / "compiled")}
    if checkout is None or not (checkout / "gym_pybullet_drones").is_dir():
        raise UserError(f"{name} is not on PyPI: clone it from GitHub and give its folder with --{CHECKOUT}.")
    return python, {"PYTHONPATH": str(checkout)}


def at_home(task: str, policy: Path, trials: int, delays: list[float]) -> dict[str, Any]:
    """Return the figures of the same flights in rlstack's own batch simulator, with goals at the origin."""
    from rlstack.policies import load_policy
    from rlstack.robots import frames
    from rlstack.sim.perturbation import Perturbation
    from rlstack.tasks.quadrotor.paths import Paths
    from rlstack.tasks.quadrotor.scenario import Scenario
    from rlstack.verification.departures import Departures
    from rlstack.verification.flight_trials import rollout

    sys.path.insert(0, str(FOLDER))
    from flights import figures

    job, robot = flights(task, trials), load_quadrotor("crazyflie")
    loaded = load_policy(policy, robot=robot)
    starts = {name: np.array(array) for name, array in job["starts"].items()}
    pushed = {name: starts.pop(name) for name in ("force_n", "torque_n_m")}
    still = np.zeros((trials, 3)), np.zeros(trials)
    follows = any(port.name == "path_time" for port in loaded.contract.inputs)
    path = Paths(np.tile([0.0, 1.0], (trials, 1)), np.zeros((trials, 2, 3)), np.zeros((trials, 2))) if follows else None
    perturbation = replace(Perturbation.none(trials), **pushed)
    scenario = Scenario(starts, *still, perturbation, np.full(trials, "task"), path=path)
    rows, duration_s, rate_hz = [], job["criteria"]["duration_s"], loaded.contract.rate_hz
    for delay_s in delays:
        late = Departures(observation_delay_s=delay_s)
        flown = rollout(loaded, scenario, robot, duration_s, noise_seed=SEED, departures=late)
        error = np.nan_to_num(flown.error_m[1:], nan=np.inf)
        yaw = np.abs(frames.yaw(flown.orientation[1:]))
        rows.append({"parameters": "ours", "delay_s": delay_s, **figures(error, yaw, job["criteria"], rate_hz)})
    return {"versions": {}, "rows": rows}


def run(
    name: str, task: str, policy: Path, python: Path, variables: Mapping[str, str], trials: int, delays: list[float]
) -> dict[str, Any]:
    """Run a policy file in a simulator; return versions and rows of figures."""
    simulator = SIMULATORS[name]
    job = JOBS[simulator.kind](task, min(trials, simulator.most))
    job |= {"seed": SEED, "parameters": simulator.parameters, "delays_s": delays, "task": task}
    return execute(name, job, policy, python, variables)


def execute(
    name: str, job: Mapping[str, Any], policy: Path, python: Path, variables: Mapping[str, str]
) -> dict[str, Any]:
    """Run a simulator's script with a job and a policy file; return what it writes."""
    simulator = SIMULATORS[name]
    with tempfile.TemporaryDirectory() as scratch:
        given, out = Path(scratch) / "job.json", Path(scratch) / "out.json"
        given.write_text(json.dumps(job))
        known = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        known |= {**ONE_THREAD, **variables}
        command = [python, FOLDER / simulator.script, "--policy", policy.resolve(), "--job", given, "--out", out]
        tried = subprocess.run(command, env=known, capture_output=True, text=True, cwd=scratch)
        if tried.returncode:
            raise UserError(f"{job['task']} in {name} failed:\n{tried.stderr.strip()[-2000:]}")
        found: dict[str, Any] = json.loads(out.read_text())
    return found


_SHARES = {"success", "within_0_1", "lost", "stable", "collided", "held"}
_SCALED = {"error_m": ("error, mm", 1e3), "yaw_error_rad": ("yaw, degrees", 180.0 / np.pi)}


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows of figures as a Markdown table."""
    left_out = {"cpu_s"}
    keys = list(dict.fromkeys(key for row in rows for key in row if key not in left_out))
    head = [_SCALED.get(key, (key.removesuffix("_s").replace("_", " "),))[0] for key in keys]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in keys) + " |"]
    for row in rows:
        lines.append("| " + " | ".join(_cell(key, row.get(key, "")) for key in keys) + " |")
    return "\n".join(lines)


def _cell(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if key in _SHARES:
        return f"{100.0 * value:.1f}%"
    if key in _SCALED:
        scaled = value * _SCALED[key][1]
        return f"{scaled:.1f}" if scaled < 1e4 else "beyond"
    return f"{1e3 * value:.0f} ms" if key.endswith("delay_s") else f"{value:.4g}"


def main() -> None:
    """Make the environments, run every policy, print the tables."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlstack" / "foreign_simulators"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", action="append", metavar="NAME=FILE", help="Default: those in policies/.")
    parser.add_argument("--simulators", nargs="+", choices=list(SIMULATORS), default=list(SIMULATORS))
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--delays", nargs="+", type=float, metavar="S", help="Instead of those of each kind.")
    parser.add_argument("--environments", type=Path, default=cache, help=f"Default: {cache}")
    parser.add_argument("--gym-pybullet-drones", type=Path, metavar="FOLDER", help="Its checkout.")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    known = {task for simulator in SIMULATORS.values() for task in simulator.tasks}
    shipped = {task: FOLDER.parents[1] / "policies" / task / "policy.onnx" for task in sorted(known)}
    policies = [(task, path) for task, path in shipped.items() if path.exists()]
    if chosen.policy:
        policies = [(task, Path(path)) for task, _, path in (text.partition("=") for text in chosen.policy)]
    if wrong := [task for task, path in policies if task not in known or not path.is_file()]:
        raise UserError(f"--policy {wrong[0]}=FILE: needs a file, and a name among {', '.join(sorted(known))}.")
    rows: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    for name in chosen.simulators:
        simulator = SIMULATORS[name]
        try:
            mine = [(task, path) for task, path in policies if task in simulator.tasks]
            if not mine:
                continue
            if name != HOME:
                python, variables = environment(name, chosen.environments, chosen.gym_pybullet_drones)
            for task, path in mine:
                delays = chosen.delays or list(DELAYS_S[simulator.kind])
                if name == HOME:
                    found = at_home(task, path, chosen.trials, delays)
                else:
                    found = run(name, task, path, python, variables, chosen.trials, delays)
                versions |= found["versions"]
                fresh = [{"simulator": name, "policy": task, **row} for row in found["rows"]]
                rows += fresh
                print(f"\n{table(fresh)}\n", flush=True)
        except UserError as error:
            print(f"{name} left out: {error}", flush=True)
    print(", ".join(f"{package} {number}" for package, number in versions.items()))
    if chosen.json:
        chosen.json.write_text(json.dumps({"versions": versions, "rows": rows}, indent=1))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
