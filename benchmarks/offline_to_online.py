"""Learning from a robot's recordings beside a simulator that is off by 30%: offline alone, the simulator alone, H2O and
WSRL, on a base and an arm, judged on the robot.

    python benchmarks/offline_to_online.py base --out runs/base_offline_to_online
    python benchmarks/offline_to_online.py arm --out runs/arm_offline_to_online
    python benchmarks/offline_to_online.py base --seeds 0 --methods h2o --set updates=1 --out runs/tuning

The robot is a simulator with other numbers than the file that is trained with (:data:`CASES`). With each seed a policy
is trained in the simulator alone; it drives the robot, with noise, for ten minutes, recorded as a LeRobot dataset;
every method learns, and its last policy is judged on the robot in trials that nothing has seen. Nothing is chosen by
how it does on the robot. What is in the folder already is not done again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from rlstack.bringup.bench import machine
from rlstack.data.lerobot import Dataset
from rlstack.demonstrations.metadata import SUCCESS
from rlstack.demonstrations.recording import Choice, record
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.kinds.wheeled_base.verification_racing import tracks_of
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.robots.spec import robot_files
from rlstack.training import run
from rlstack.training.episode_outcomes import with_outcomes
from rlstack.training.recipe import recipe_from_data
from rlstack.training.recorded_episodes import record_episodes
from rlstack.training.run_folder import load_checkpoint
from rlstack.training.squashed_actor import SquashedActor
from rlstack.verification.manipulation_trials import held_out, manipulate
from rlstack.verification.race_trials import race

RECORDED_S = 600.0
TRIALS_SEED = 500_000
SIMULATOR, ONLINE, ORACLE = "simulator alone", "wsrl", "the robot itself"
Settings = dict[str, Any]
Figures = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Case:
    """A task, the file that is trained with, and the robot that is not as its file says.

    Args:
        task, robot: Names of the task and of the robot file.
        settings: Settings of the task.
        changed: Returns the data of the robot's own file for those of the shipped one.
        envs: Robots at once in the simulator.
        steps: Steps in the simulator.
        online_steps: The robot's own steps in WSRL.
        noise: Standard deviation of the noise on the recorded actions.
        common: Settings of every algorithm.
        methods: Algorithm of each method, and its settings beside the common ones.
        record, judge: Record in a folder, and return the share of trials that succeed and how well.
    """

    task: str
    robot: str
    settings: Settings
    changed: Callable[[Settings], Settings]
    envs: int
    steps: int
    online_steps: int
    noise: float
    common: Settings
    methods: dict[str, tuple[str, Settings]]
    record: Callable[[Case, Path, str, Path, int], None]
    judge: Callable[[Case, str, Path, int], Figures]

    def recipe(self, algorithm: str, seed: int, robot: str, **more: Any) -> Any:
        """Return a checked recipe."""
        data: Settings = {"name": f"{self.task}_{algorithm}", "task": self.task, "robot": robot, "algorithm": algorithm}
        data |= {"seed": seed, "threads": 1, "envs": self.envs, "steps": self.steps, "task_settings": self.settings}
        return recipe_from_data({**data, "selection": {"episodes": 1}, **more}, algorithm)


def off_car(data: Settings) -> Settings:
    """Return a racecar with 30% less grip, lags that are 30% longer, and curvatures 30% smaller than commanded."""
    response = {name: number for name, number in data["response"].items() if "_range" not in name}
    for lag in ("linear_time_constant_s", "angular_time_constant_s"):
        response[lag] *= 1.3
    response["angular_slip"] = 0.3
    contact = {**data["contact"], "wheel_friction": 0.7 * data["contact"]["wheel_friction"]}
    return {**data, "response": response, "contact": contact}


def off_arm(data: Settings) -> Settings:
    """Return an arm whose drives have 30% more stiffness and armature, and 30% less damping."""
    off = {"stiffness_n_m_per_rad": 1.3, "damping_n_m_s_per_rad": 0.7, "armature_kg_m2": 1.3}
    joints = [{**joint, **{name: joint[name] * share for name, share in off.items()}} for joint in data["joints"]]
    return {**data, "joints": joints}


def noisy_policy(case: Case, simulated: Path, pipeline: Any, seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a run's last policy with noise on its actions: actions (n, actions) for observations (n, columns)."""
    actor = SquashedActor(pipeline.size, pipeline.action_size, tuple(case.common["hidden"]))
    actor.load_state_dict(load_checkpoint(simulated)["best"]["actor"])
    generator = torch.Generator().manual_seed(seed)

    def act(seen: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            chosen, _ = actor(seen, {})
        return (chosen + case.noise * torch.randn(chosen.shape, generator=generator)).clamp(-1.0, 1.0)

    return act


def record_races(case: Case, simulated: Path, robot: str, out: Path, seed: int) -> None:
    """Record the car driven by a run's last policy with noise."""
    task, car = case.recipe("sac", seed, robot).task_settings, load_robot(robot)
    torch.manual_seed(seed)
    environment: Any = with_outcomes(task.environment(car, task.pipeline(car), 4, device="cpu", seed=10_000 + seed))
    record_episodes(out, environment, noisy_policy(case, simulated, environment.pipeline, seed), RECORDED_S)


def judge_races(case: Case, robot: str, policy: Path, trials: int) -> Figures:
    """Return the share of held-out tracks on which the car does a lap from rest without contact, and its speed."""
    car: Any = load_robot(robot)
    tracks = tracks_of(trials, 5)
    driven = race(load_policy(policy, robot=car), tracks, car, rate_hz=20.0, laps=1, batch_size=trials)
    clean = np.isfinite(driven.lap_s[:, 0])
    speed = np.median(driven.length_m[clean] / driven.lap_s[clean, 0]) if clean.any() else 0.0
    return {"success": float(clean.mean()), "lap_m_s": round(float(speed), 2)}


def record_reaches(case: Case, simulated: Path, robot: str, out: Path, seed: int) -> None:
    """Record the arm moved by a run's last policy with noise, as ``rlstack demo record --keep-failures`` does."""
    arm: Any = load_robot(robot)
    task = case.recipe("sac", seed, robot).task_settings
    act = noisy_policy(case, simulated, task.pipeline(arm), seed)

    def decide(station: Any) -> Choice:
        seen = torch.from_numpy(station.observation().astype(np.float32))[None]
        return Choice(act(seen)[0].numpy().astype(np.float64))

    episodes = round(RECORDED_S / task.episode_s)
    record(out, case.task, task, arm, decide, episodes, seed=10_000 + seed, keep_failures=True)


def judge_reaches(case: Case, robot: str, policy: Path, trials: int) -> Figures:
    """Return the share of held-out trials that succeed on the arm, and the median distance from the goal."""
    arm: Any = load_robot(robot)
    task = case.recipe("sac", 0, robot).task_settings.judged()
    drawn, driver = held_out(task, arm, trials, TRIALS_SEED), load_policy(policy, robot=arm)
    record = manipulate(driver, task, arm, drawn, batch_size=trials, threads=1)
    return {"success": float(record.success.mean()), "error_m": round(float(np.median(record.error_m)), 4)}


LEARNER: Settings = {
    "hidden": [128, 128],
    "batch": 128,
    "critics": 2,
    "actor_every": 2,
    "learning_rate": 1e-3,
    "tau": 0.01,
    "entropy_backup": False,
    "temperature": 0.05,
    "target_entropy": -1.0,
}
CONSERVATIVE: Settings = {"failures": True, "cloning": 0.0, "layer_norm": True}
OFFLINE: Settings = {"warm_up": 1_000_000, "updates": 0.01, "pretraining": 3000}
"""Nothing is learned after pretraining."""
METHODS: dict[str, tuple[str, Settings]] = {
    SIMULATOR: ("sac", {}),
    "offline, Cal-QL": ("wsrl", {**CONSERVATIVE, **OFFLINE}),
    "offline, RO2O": ("ro2o", {**OFFLINE, "critics": 4, "drawn_critics": 4}),
    "h2o": ("h2o", {"layer_norm": True, "classifier_hidden": [64, 64]}),
    ONLINE: ("wsrl", {**CONSERVATIVE, "pretraining": 2000, "warm_up": 1000, "updates": 1.0}),
    ORACLE: ("sac", {}),
}

CASES: dict[str, Case] = {
    "base": Case(
        task="base_racing",
        robot="racecar",
        settings={},
        changed=off_car,
        envs=32,
        steps=24_000,
        online_steps=6_000,
        noise=0.3,
        common={**LEARNER, "gamma": 0.98, "hindsight": 0.0, "updates": 0.25},
        methods=METHODS,
        record=record_races,
        judge=judge_races,
    ),
    "arm": Case(
        task="arm_reach",
        robot="so100",
        settings={"rewards": "sparse"},
        changed=off_arm,
        envs=16,
        steps=6_000,
        online_steps=2_000,
        noise=0.3,
        common={**LEARNER, "gamma": 0.95, "hindsight": 0.8, "bounded": True, "updates": 0.5},
        methods={**METHODS, "cloned": ("bc", {})},
        record=record_reaches,
        judge=judge_reaches,
    ),
}


def succeeded(dataset: Path) -> int:
    """Return how many of the recorded episodes succeeded."""
    held = Dataset(dataset)
    return sum(
        bool(held.read(k, [SUCCESS], start=held.episodes[k].length - 1)[SUCCESS].any()) for k in range(len(held))
    )


def done(case: Case, name: str, seed: int, out: Path, more: Settings, trials: int) -> dict[str, Any]:
    """Return what a method achieves on the robot with a seed, from the folder if it is there."""
    file = out / f"{name.replace(', ', '_').replace(' ', '_').lower()}-{seed}.json"
    if file.is_file():
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    robot = out / f"{case.robot}.yaml"
    out.mkdir(parents=True, exist_ok=True)
    if not robot.is_file():
        shipped = yaml.safe_load(robot_files()[case.robot].read_text(encoding="utf-8"))
        write_atomically(robot, yaml.safe_dump(case.changed(shipped), sort_keys=False))
    simulated, dataset, folder = out / f"simulator_alone-{seed}", out / f"recorded-{seed}", file.with_suffix("")
    if name != SIMULATOR:
        done(case, SIMULATOR, seed, out, {}, trials)
        if not (dataset / "meta" / "info.json").is_file():
            case.record(case, simulated, str(robot), dataset, seed)
    algorithm, own = case.methods[name]
    settings, steps = {**(case.common if algorithm != "bc" else {}), **own, **more}, case.steps
    if algorithm == "bc":
        settings["demonstrations"] = max(succeeded(dataset), 1)
    if name not in (SIMULATOR, ORACLE):
        settings["dataset"] = str(dataset)
    real = name not in (SIMULATOR, "h2o")  # no step in the simulator
    if real and name != ORACLE:
        steps = case.online_steps if name == ONLINE else 1
    begun = time.process_time()
    if not (folder / run.POLICY).is_file():
        recipe = case.recipe(
            algorithm,
            seed,
            str(robot) if real else case.robot,
            algorithm_settings=settings,
            steps=steps,
            envs=4 if real and name != ORACLE else case.envs,
        )
        run.start(recipe, folder, evaluate=False)
    took = time.process_time() - begun
    found = {"method": name, "seed": seed, **case.judge(case, str(robot), folder / run.POLICY, trials)}
    found["cpu_s"] = round(took, 1)
    if name == SIMULATOR:
        there = case.judge(case, case.robot, folder / run.POLICY, trials)
        found |= {f"in_simulator_{key}": figure for key, figure in there.items()}
    write_atomically(file, json.dumps(found) + "\n")
    return found


def main() -> int:
    """Learn, judge, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=tuple(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101, 102, 103, 104])
    parser.add_argument("--methods", nargs="+", default=[], help="all by default")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="of the methods' algorithms, to tune"
    )
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    case = CASES[options.case]
    more = {name: yaml.safe_load(text) for name, _, text in (word.partition("=") for word in options.set)}
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for name in options.methods or case.methods:
            rows.append(done(case, name, seed, options.out, more, options.trials))
            print(rows[-1], flush=True)
    print(f"\n{'method':<20}{'mean':>7}{'least':>8}{'most':>8}{'CPU-s':>8}   of {options.trials} trials each")
    for name in dict.fromkeys(row["method"] for row in rows):
        same = [row for row in rows if row["method"] == name]
        each = [100.0 * row["success"] for row in same]
        cpu_s = np.mean([row["cpu_s"] for row in same])
        print(f"{name:<20}{np.mean(each):>6.1f}%{min(each):>7.1f}%{max(each):>7.1f}%{cpu_s:>8.0f}")
    if options.json is not None:
        write_atomically(options.json, json.dumps({"machine": machine(), "runs": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"offline_to_online: {error}")
