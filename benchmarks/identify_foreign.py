#!/usr/bin/env python3
"""What an identification is worth in somebody else's simulator: its vehicle is found, and the policy retrained on it.

    python benchmarks/identify_foreign.py --gym-pybullet-drones CHECKOUT [--vehicles NAME ...] [--residual] [--retrain]

Vehicles are those that come with crazyflow and gym-pybullet-drones, the latter also with its ground effect, drag and
motors that lag. The released quadrotor_foundation, which is told the vehicle's rotors, flies it to goals that step,
with the odometry noise of the task. From that recording and the file of our Crazyflie the vehicle is identified, its
mass given; --residual also fits what that leaves. Reported are the error of the motion predicted over 1 s, on seconds
that were held out and on another flight, with the file as shipped and as identified; and how many held-out flights of
the hover task settle there with the released quadrotor_hover and, after --retrain, with the one that was trained on the
identified file. Environments are those of benchmarks/foreign_simulators.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import foreign_simulators as foreign
import numpy as np
from foreign_trials import flights

from rlstack.errors import UserError
from rlstack.identification.gap import gap_of
from rlstack.identification.identify import Identification, check, gap_report, identify
from rlstack.identification.page import gap_table
from rlstack.identification.recorded import Recorded, Track
from rlstack.identification.residual import fit_residual
from rlstack.identification.robot_file import write_robot
from rlstack.kinds import find_kind
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies.released import released

FILE = "crazyflie"
VEHICLES = {
    "crazyflow": ("crazyflow", "theirs", 0.0328),
    "gym-pybullet-drones": (foreign.CHECKOUT, "theirs", 0.027),
    "gym-pybullet-drones, lag and air": (foreign.CHECKOUT, "theirs with our lag and its air", 0.027),
}
"""Simulator, parameters, and the mass, kg, that scales would show, by name."""
MOTION = ("position", "orientation", "linear_velocity", "angular_velocity")


def recorded_flight(vehicle: str, where: tuple[Path, Mapping[str, str]], seconds: float, seed: int) -> Recorded:
    """Fly a vehicle in its simulator and return the recording.

    Raises:
        UserError: The flight was lost.
    """
    name, parameters, _ = VEHICLES[vehicle]
    rng = np.random.default_rng(seed)
    goals, at_s = [[0.0, 0.0, 0.0, 1.2, 0.0]], 1.0
    while at_s < seconds:
        goals.append([at_s, *rng.uniform([-1.5, -1.5, 0.8], [1.5, 1.5, 2.4]), rng.uniform(-2.5, 2.5)])
        at_s += rng.uniform(0.7, 2.0)
    job, robot = flights("quadrotor_hover", 1), load_quadrotor(FILE)
    still = {key: np.zeros((1, 3)).tolist() for key in ("linear_velocity", "angular_velocity", "force_n", "torque_n_m")}
    start = {"position": [[0.0, 0.0, 1.2]], "orientation": [[0.0, 0.0, 0.0, 1.0]]}
    job["starts"] = {**still, **start, "rotor_speed": [[robot.hover_speed_rad_s] * 4]}
    job |= {"seed": seed, "parameters": [parameters], "delays_s": [0.0], "task": "a recording", "goals": goals}
    pilot = next(one.path for one in released() if one.name == "quadrotor_foundation")
    flown = foreign.execute(name, {**job, "seconds": seconds}, pilot, *where)["rows"][0]
    if flown["lost_s"] is not None:
        raise UserError(f"{vehicle}: the flight was lost after {flown['lost_s']:.1f} s")
    at = flown["period_s"] * np.arange(len(flown["signals"]["position"]))
    odom = Track("odom", at, {key: np.array(flown["signals"][key]) for key in MOTION})
    sent = Track("cmd/rotors", at, {"rotor_speed": np.array(flown["signals"]["rotor_speed"])})
    speeds = {"measured_rotor_speed": np.array(flown["signals"]["measured_rotor_speed"])}
    tracks = {"odom": odom, "cmd/rotors": sent, "joint_states": Track("joint_states", at, speeds)}
    return Recorded(Path(f"{vehicle} {seed}"), tracks)


def settled(vehicle: str, where: tuple[Path, Mapping[str, str]], policy: Path, trials: int) -> list[dict[str, Any]]:
    """Return the figures of the hover task's held-out flights there."""
    name, parameters, _ = VEHICLES[vehicle]
    job = flights("quadrotor_hover", trials)
    job |= {"seed": foreign.SEED, "parameters": [parameters], "delays_s": [0.0, 0.02], "task": "quadrotor_hover"}
    rows: list[dict[str, Any]] = foreign.execute(name, job, policy, *where)["rows"]
    return rows


def beyond(found: Identification, other: Recorded) -> dict[str, Any]:
    """Fit a residual model, print what it is worth, and return its errors after 1 s on another flight, by channel."""
    residual = fit_residual(found)
    print(f"residual: {residual.seconds:.0f} CPU-s. {residual.why}")
    for term in residual.terms:
        print(f"  {term.name}: {term.before:.3g} -> {term.after:.3g} {'used' if term.used else 'not used'}")
    print(gap_table(residual.gaps))
    if residual.model is None:
        return {"used": False}
    kind = find_kind(found.robot.kind).load("identification")
    model = kind.model(found.robot, [other])
    gaps = [gap_of(one, found.values, [other], held_out=False) for one in (model, model.with_residual(residual.model))]
    errors = {name: [float(gap.errors[name][-1]) for gap in gaps] for name in gaps[0].errors}
    print(f"  another flight, from {model.driven_by}, without and with it: {errors}")
    return {"used": True, "other_flight": errors}


def said(found: Identification) -> str:
    """Return what was found, parameter by parameter."""
    rows = []
    for name, one in found.estimates.items():
        ends = "" if one.interval is None else f" ({one.interval[0]:.5g} to {one.interval[1]:.5g})"
        rows.append(f"  {name}: {one.parameter.value:.5g} -> {one.value:.5g}{ends} {one.parameter.unit} {one.verdict}")
    return "\n".join(rows)


def main() -> None:
    """Fly, identify, train, and print the figures."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlstack" / "foreign_simulators"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vehicles", nargs="+", choices=list(VEHICLES), default=list(VEHICLES))
    parser.add_argument("--seconds", type=float, default=60.0, help="of the flight that is identified from")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--residual", action="store_true", help="fit a residual model, too")
    parser.add_argument("--retrain", action="store_true", help="train quadrotor_hover on each, a minute, and fly it")
    parser.add_argument("--environments", type=Path, default=cache, help=f"Default: {cache}")
    parser.add_argument("--gym-pybullet-drones", type=Path, metavar="FOLDER", help="Its checkout.")
    parser.add_argument("--out", type=Path, help="Keep robot files and policies in this folder.")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    robot, rows = load_quadrotor(FILE), []
    for vehicle in chosen.vehicles:
        name, _, mass = VEHICLES[vehicle]
        where = foreign.environment(name, chosen.environments, chosen.gym_pybullet_drones)
        one, other = (recorded_flight(vehicle, where, chosen.seconds, chosen.seed + k) for k in range(2))
        found = identify(robot, [one], {"mass": mass})
        print(f"{vehicle}: {found.seconds:.0f} CPU-s of identification\n{said(found)}", flush=True)
        fresh = {key: float(error[-1]) for key, error in gap_report(robot, [other], {})[1].errors.items()}
        row: dict[str, Any] = {"vehicle": vehicle, "parameters": {k: e.value for k, e in found.estimates.items()}}
        row["held_out"] = {key: [float(gap.errors[key][-1]) for gap in (found.before, found.after)] for key in fresh}
        with tempfile.TemporaryDirectory() as folder:
            home = chosen.out or Path(folder)
            home.mkdir(parents=True, exist_ok=True)
            file = home / f"{vehicle.split(',')[0].replace('-', '_')}_{len(rows)}.yaml"
            file.unlink(missing_ok=True)
            write_robot(file, FILE, found)
            # a delay has no place in the file, and simulations leave the rotors' inertia out: the model is told
            told = {name: found.estimates[name].value for name in ("delay", "spin_inertia")}
            again = gap_report(load_quadrotor(file), [other], told)[1]
            row["other_flight"] = {key: [fresh[key], float(again.errors[key][-1])] for key in fresh}
            print(gap_table(found.gaps | check(load_quadrotor(file), [other], told)))
            if chosen.residual:
                row["residual"] = beyond(found, other)
            for key in fresh:
                print(f"  {key} after 1 s: held out {row['held_out'][key]}, another flight {row['other_flight'][key]}")
            policies = {"shipped": next(p.path for p in released() if p.name == "quadrotor_hover")}
            if chosen.retrain:
                run = home / file.stem
                words = ["rlstack", "train", "quadrotor_hover", "--robot", str(file), "--out", str(run), "--no-view"]
                subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
                policies["retrained"] = run / "policy.onnx"
            for which, policy in policies.items():
                row[which] = settled(vehicle, where, policy, chosen.trials)
                print(f"  {which}\n{foreign.table(row[which])}", flush=True)
        rows.append(row)
        if chosen.json:
            chosen.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
