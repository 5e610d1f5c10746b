"""Race policies of `base_racing` against the fastest line followed by pure pursuit, on held-out tracks.

    rlstack train base_racing --seed 100 --out runs/racing-100
    python benchmarks/racing.py runs/racing-1*            # figures of docs/racing.md
    python benchmarks/racing.py --tune                    # how the controller's gains were chosen, on training tracks

Every car drives two laps from rest, alone on its track; the flying lap is the second. Contacts are of the car's outline
with a wall, in every simulator. Needs casadi.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from rlstack.control.racing_line import CarLimits, PursuitGains, RacingLine, RacingLineController
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.policies import load_policy
from rlstack.robots import load_robot
from rlstack.sim.maps.generate import HELD_OUT_SEEDS, TRAINING_SEEDS
from rlstack.sim.maps.tracks import Track, draw_track
from rlstack.verification.race_baseline import BEND_RATE_1_M_S, GAINS, GRIP_SHARE, MARGIN_M, limits_of, lines_of
from rlstack.verification.race_trials import race
from rlstack.verification.trial_records import RaceRecord

RATE_HZ = 20.0


def lines_for(tracks: list[Track], limits: CarLimits, margin_m: float, cache: Path | None) -> list[RacingLine]:
    """Return the fastest line of each track, kept in a file between runs."""
    if cache is not None and cache.is_file():
        return pickle.loads(cache.read_bytes())
    lines = lines_of(tracks, limits, margin_m)
    if cache is not None:
        cache.write_bytes(pickle.dumps(lines))
    return lines


def tune(robot: WheeledBase, seconds: int) -> None:
    """Print the fastest gains without contact on ten training tracks, by random search."""
    tracks = [draw_track(seed) for seed in TRAINING_SEEDS[:10]]
    rng, found = np.random.default_rng(0), []
    kept: dict[float, list[RacingLine]] = {}
    for _ in range(seconds):
        grip = float(rng.choice([0.7, 0.8, 0.9]))
        if grip not in kept:
            limits = limits_of(robot)
            tighter = replace(limits, grip_m_s2=grip * limits.grip_m_s2, bend_rate_1_m_s=BEND_RATE_1_M_S)
            kept[grip] = lines_for(tracks, tighter, MARGIN_M, None)
        gains = PursuitGains(
            ahead_m=float(rng.uniform(0.3, 0.7)),
            ahead_s=float(rng.uniform(0.05, 0.22)),
            preview_s=float(rng.uniform(0.05, 0.2)),
            lead_s=float(rng.uniform(0.0, 0.1)),
            speed_share=float(rng.choice([0.95, 1.0])),
        )
        driven = race(RacingLineController(kept[grip], gains), tracks, robot, rate_hz=RATE_HZ)
        found.append((int(driven.contact.sum()), float(np.nanmean(driven.flying_s)), grip, gains))
    for row in sorted(found, key=lambda row: row[:2])[:10]:
        print(*row)


def row(name: str, driven: RaceRecord, reference_s: np.ndarray | None) -> str:
    """Return one line of the table; figures of laps that nobody finished are left out."""
    done = np.isfinite(driven.flying_s)
    both = done if reference_s is None else done & np.isfinite(reference_s)
    cells = [
        name,
        f"{driven.flying_s[done].mean():.2f}" if done.any() else "",
        f"{(driven.length_m / driven.flying_s)[done].mean():.2f}" if done.any() else "",
        f"{(driven.flying_s / reference_s)[both].mean():.3f}" if reference_s is not None and both.any() else "",
        f"{driven.clean_laps}",
        f"{driven.contact.sum()}",
        f"{driven.clearance_m.min():.3f}",
    ]
    return "| " + " | ".join(cells) + " |"


def policy_of(run: Path) -> Path:
    """Return the policy file of a run's folder; a policy file is returned as it is.

    Raises:
        UserError: There is nothing of that name, or the run has not ended.
    """
    if not run.exists():
        raise UserError(f"There is no {run}: name the folder of a run, or a policy file.")
    if not run.is_dir():
        return run
    for name in ("policy.onnx", "training.json"):
        if not (run / name).is_file():
            raise UserError(
                f"{run} is not the folder of a run that has ended: it has no {name}. Let the training end, or go on"
                f" with it by `rlstack train --resume {run}`."
            )
    return run / "policy.onnx"


def first_clean_s(run: Path) -> str:
    """Return CPU seconds of learning until the first evaluation in which a car went round a held-out track."""
    try:
        figures = json.loads((run / "training.json").read_text())
    except json.JSONDecodeError as error:
        raise UserError(f"{run / 'training.json'} is damaged ({error}): train again.") from error
    times = [e["cpu_seconds"] for e in figures["evaluations"] if e["success"] > 0.0]
    return f"{min(times):.0f}" if times else "never"


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="folders of runs, or policy files")
    parser.add_argument("--tracks", type=int, default=50)
    parser.add_argument("--simulators", nargs="*", default=["batch"])
    parser.add_argument("--engine-tracks", type=int, default=5, help="in every other simulator")
    parser.add_argument("--cache", type=Path, help="file to keep the reference lines in")
    parser.add_argument("--tune", type=int, nargs="?", const=100, default=0)
    arguments = parser.parse_args(argv)
    robot = load_robot("racecar")
    assert isinstance(robot, WheeledBase)
    if arguments.tune:
        tune(robot, arguments.tune)
        return
    # before minutes are spent
    policies = [(run.name, load_policy(policy_of(run))) for run in arguments.runs]
    first_s = [(run.name, first_clean_s(run)) for run in arguments.runs if run.is_dir()]
    tracks = [draw_track(seed) for seed in HELD_OUT_SEEDS[: arguments.tracks]]
    limits = limits_of(robot)
    tighter = replace(limits, grip_m_s2=GRIP_SHARE * limits.grip_m_s2, bend_rate_1_m_s=BEND_RATE_1_M_S)
    lines = lines_for(tracks, tighter, MARGIN_M, arguments.cache)
    for simulator in arguments.simulators:
        count = len(tracks) if simulator == "batch" else arguments.engine_tracks
        some = tracks[:count]
        print(f"\n{simulator}, {count} held-out tracks, two laps each\n")
        print("| driver | flying lap s | speed m/s | of pure pursuit's | clean laps | contacts | least clearance m |")
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        reference = race(RacingLineController(lines[:count], GAINS), some, robot, rate_hz=RATE_HZ, simulator=simulator)
        print(row("fastest line, pure pursuit", reference, None), flush=True)
        for name, policy in policies:
            driven = race(policy, some, robot, rate_hz=RATE_HZ, simulator=simulator)
            print(row(name, driven, reference.flying_s), flush=True)
    for name, seconds in first_s:
        print(f"{name}: first clean lap after {seconds} CPU-s of learning")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
