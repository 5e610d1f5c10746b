"""Policy files in other people's simulators, each in an environment of its own that has nothing of rlstack.

    python benchmarks/foreign_simulators.py [--policy NAME=FILE ...] [--simulators NAME ...] [--trials 200]

The names are tasks: quadrotor_hover, quadrotor_foundation, base_navigation, base_crowd_crowdnav, arm_reach. A policy
runs in every simulator below of its kind, from the task's held-out starts (on its held-out maps), with that
simulator's parameters as they are ("theirs") and with those of the policy's robot ("ours"), without and with
observations that are late. The process that simulates runs the file with numpy and onnxruntime alone
(benchmarks/foreign_simulators/policy_file.py); starts, maps and the robot's numbers come to it in a JSON file.

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
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.tasks.quadrotor.sampling import Randomisation, Starts

FOLDER = Path(__file__).with_suffix("")
RUNTIME, NUMPY = "onnxruntime==1.31.1", "numpy==2.4.6"
"""What a policy file needs; robosuite needs an older numpy."""
SEED = 424242
"""Not one of training, tuning or verification."""
DELAYS_S = {
    "quadrotor": (0.0, 0.01, 0.02, 0.03),
    "wheeled_base": (0.0, 0.2),
    "crowd": (0.0, 0.25, 0.5),
    "manipulator": (0.0, 0.1),
}
"""Age of what is seen, by kind of trial: odometry; the scan; people; joints."""
CHECKOUT = "gym-pybullet-drones"


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
    "l2f": Simulator("quadrotor", "fly_l2f.py", ("l2f==2.0.18",), FLIGHTS, ("theirs", "their family", "ours")),
    "crazyflow": Simulator("quadrotor", "fly_crazyflow.py", ("crazyflow==0.4.0",), FLIGHTS, FLOWN),
    CHECKOUT: Simulator(
        "quadrotor",
        "fly_gym_pybullet_drones.py",
        (
            *("pybullet==3.2.7", "gymnasium==1.4.0", "scipy==1.17.1", "transforms3d==0.4.2"),
            *("pillow==13.0.0", "setuptools==80.9.0"),
        ),
        FLIGHTS,
        ("theirs", "theirs with our lag", "ours"),
        most=200,
    ),
    "ir-sim": Simulator(
        "wheeled_base", "drive_ir_sim.py", ("ir-sim==2.12.0",), ("base_navigation",), ("theirs", "ours"), 200
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
        return python, {}
    if checkout is None or not (checkout / "gym_pybullet_drones").is_dir():
        raise UserError(f"{name} is not on PyPI: clone it from GitHub and give its folder with --{CHECKOUT}.")
    return python, {"PYTHONPATH": str(checkout)}


def flights(task: str, trials: int) -> dict[str, Any]:
    """Return the job of the hover task's held-out flights: starts, disturbances, noise, the robot's numbers."""
    from rlstack.tasks import TASKS

    hover = TASKS.load("quadrotor_hover")()
    robot, rng = load_quadrotor("crazyflie"), np.random.default_rng(SEED)
    starts, disturbed = Starts().sample(rng, trials, robot), Randomisation().sample(rng, trials, robot)
    noise = hover.noise
    model = robot.rotor_model
    family = {"family": family_of_raptor(trials)} if task == "quadrotor_foundation" else {}
    return {
        **family,
        "starts": {
            **{name: array.tolist() for name, array in starts.items()},
            "force_n": disturbed.force_n.tolist(),
            "torque_n_m": disturbed.torque_n_m.tolist(),
        },
        "goal_position": [1.0, -0.5, 3.0],
        "goal_yaw": 0.6,
        "criteria": asdict(hover.criteria),
        "noise": {
            "position": noise.position_m,
            "orientation": noise.orientation_rad,
            "linear_velocity": noise.linear_velocity_m_s,
            "angular_velocity": noise.angular_velocity_rad_s,
        },
        "robot": {
            "name": robot.name,
            "mass_kg": robot.body.mass_kg,
            "inertia_kg_m2": robot.body.inertia_kg_m2,
            "linear_drag_n_s_per_m": robot.body.linear_drag_n_s_per_m,
            "rotors": [asdict(rotor) for rotor in robot.rotors],
            **{name: value for name, value in asdict(model).items() if name != "name"},
        },
    }


def family_of_raptor(count: int) -> list[dict[str, Any]]:
    """Return vehicles of RAPTOR's training family, in l2f's words (its own sampler is compiled without)."""
    from rlstack.tasks.quadrotor.family import nominal_robot, sample_family

    robot = nominal_robot(load_quadrotor("crazyflie"))
    p, model = sample_family(np.random.default_rng(SEED), count, robot).perturbation, robot.rotor_model
    found: list[dict[str, Any]] = []
    top = model.speed_max_rad_s
    curve = np.array(model.thrust_coefficients) * top ** np.arange(3)
    for k in range(count):
        inertia = np.diag(np.array(robot.body.inertia_kg_m2) * p.inertia_scale[k])
        found.append(
            {
                "rotor_positions": (robot.rotor_positions * [*p.arm_scale[k], 1.0]).tolist(),
                "rotor_torque_directions": [[0.0, 0.0, float(sign)] for sign in robot.yaw_torque_signs],
                "rotor_thrust_coefficients": [(curve * p.thrust_scale[k, 0]).tolist()] * 4,
                "rotor_torque_constants": [float(model.torque_per_thrust_m * p.torque_scale[k])] * 4,
                "rotor_time_constants_rising": [float(model.rise_time_constant_s * p.time_constant_scale[k, 0])] * 4,
                "rotor_time_constants_falling": [float(model.fall_time_constant_s * p.time_constant_scale[k, 1])] * 4,
                "mass": float(robot.body.mass_kg * p.mass_scale[k]),
                "J": inertia.tolist(),
                "J_inv": np.linalg.inv(inertia).tolist(),
            }
        )
    return found


def drives(task: str, trials: int) -> dict[str, Any]:
    """Return the job of base_navigation's held-out drives: maps, starts, goals, the robot's numbers."""
    from rlstack.robots import load_robot
    from rlstack.sim.batch_wheeled_base.layout import PARAMETERS
    from rlstack.tasks import TASKS
    from rlstack.verification.navigation_episodes import held_out_episodes

    settings, robot = TASKS.load(task)(), load_robot("turtlebot3_burger")
    limits, lidar = robot.limits, robot.lidars["scan"]
    fastest = limits.linear_velocity_m_s
    course = held_out_episodes(robot, trials, SEED, kinds=settings.verified_on, fastest_m_s=fastest)
    pool = course.pool

    def there(rows: np.ndarray, width: int) -> list[list[float]]:
        """Return the obstacles that are not a kilometre away."""
        return [row.tolist() for row in rows.reshape(-1, width).astype(float) if abs(row[0]) < 100.0]

    return {
        "arrival_m": settings.arrival_m,
        "robot": {
            "radius_m": robot.radius_m,
            "limits": [fastest, limits.angular_velocity_rad_s],
            "lidar": {
                key: getattr(lidar, key)
                for key in ("position_m", "range_min_m", "range_max_m", "noise_m", "noise_share", "dropout")
            },
        },
        "drives": [
            {
                "number": k,
                "boxes": there(pool.boxes[k], 6),
                "circles": [row[:3] for row in there(pool.circles[k], 5)],
                "size_m": pool.maps[k].size_m,
                "start": pool.starts[k].astype(float).tolist(),
                "goal": pool.goals[k].astype(float).tolist(),
                "limit_s": float(course.limit_s[k]),
                "fastest_s": float(pool.shortest_m[k]) / fastest,
                "response": {
                    "delay_s": float(course.parameters[PARAMETERS["delay"], k][0]),
                    "lag_s": course.parameters[PARAMETERS["lag"], k].astype(float).tolist(),
                    "gain": course.parameters[PARAMETERS["gain"], k].astype(float).tolist(),
                    "acceleration": course.parameters[PARAMETERS["acceleration"], k].astype(float).tolist(),
                },
            }
            for k in range(trials)
        ],
    }


def crossings(task: str, trials: int) -> dict[str, Any]:
    """Return the job of CrowdNav's crossings: where people start, and everybody's ORCA."""
    from crowdnav import (
        CROSSING_M,
        HORIZON_S,
        LIMIT_S,
        MARGIN_M,
        MOST_NEIGHBOURS,
        NEIGHBOURS_M,
        PERIOD_S,
        RADIUS_M,
        SPEED_M_S,
        published_starts,
    )

    return {
        "people": published_starts(trials).tolist(),
        "circle_m": CROSSING_M,
        "period_s": PERIOD_S,
        "limit_s": LIMIT_S,
        "radius_m": RADIUS_M,
        "speed_m_s": SPEED_M_S,
        "margin_m": MARGIN_M,
        "orca": [NEIGHBOURS_M, MOST_NEIGHBOURS, HORIZON_S, HORIZON_S],
    }


def reaches(task: str, trials: int) -> dict[str, Any]:
    """Return the job of an arm's trials: starts, goals, the robot's numbers."""
    from rlstack.robots import load_robot
    from rlstack.tasks import TASKS

    settings, robot = TASKS.load(task)(), load_robot("panda")
    drawn = settings.draw(robot, np.random.default_rng(SEED), trials)
    numbers = [asdict(drive) for drive in (*robot.joints, *robot.gripper)]

    def of(name: str) -> list[float]:
        return [next(value for key, value in drive.items() if key.startswith(name)) for drive in numbers]

    return {
        "joints": drawn.joints.tolist(),
        "goals": drawn.goal.tolist(),
        "duration_s": max(5.0, settings.episode_s),
        "tolerance_m": settings.tolerance_m,
        "hold_s": settings.hold_s,
        "noise": {"joint_position": settings.noise.joint_rad, "joint_velocity": settings.noise.joint_velocity_rad_s},
        "robot": {
            "names": [drive["name"] for drive in numbers],
            **{name: of(name) for name in ("stiffness", "damping", "effort_max")},
            "inertials": {link: asdict(inertial) for link, inertial in robot.inertials.items()},
        },
    }


JOBS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "quadrotor": flights,
    "wheeled_base": drives,
    "crowd": crossings,
    "manipulator": reaches,
}


def run(
    name: str, task: str, policy: Path, python: Path, variables: Mapping[str, str], trials: int, delays: list[float]
) -> dict[str, Any]:
    """Run a policy file in a simulator; return versions and rows of figures."""
    simulator = SIMULATORS[name]
    job = JOBS[simulator.kind](task, min(trials, simulator.most))
    job |= {"seed": SEED, "parameters": simulator.parameters, "delays_s": delays, "task": task}
    with tempfile.TemporaryDirectory() as scratch:
        given, out = Path(scratch) / "job.json", Path(scratch) / "out.json"
        given.write_text(json.dumps(job))
        known = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        known |= {"OMP_NUM_THREADS": "1", **variables}
        command = [python, FOLDER / simulator.script, "--policy", policy.resolve(), "--job", given, "--out", out]
        tried = subprocess.run(command, env=known, capture_output=True, text=True, cwd=scratch)
        if tried.returncode:
            raise UserError(f"{task} in {name} failed:\n{tried.stderr.strip()[-2000:]}")
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
            python, variables = environment(name, chosen.environments, chosen.gym_pybullet_drones)
            for task, path in mine:
                delays = chosen.delays or list(DELAYS_S[simulator.kind])
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
