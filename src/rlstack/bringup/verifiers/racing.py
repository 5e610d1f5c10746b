"""Racing is verified on tracks that nobody trained on, beside the fastest line followed by pure pursuit."""

from __future__ import annotations

import numpy as np

from rlstack.bringup.parallel import run_trials
from rlstack.bringup.trials import concluded
from rlstack.bringup.verified import Verified
from rlstack.bringup.verifiers import Request, held_by, over_topics
from rlstack.errors import UserError
from rlstack.kinds.wheeled_base.verification_run_racing import race_in_parallel, race_over_topics
from rlstack.sim.maps.tracks import HELD_OUT_SEEDS, draw_track
from rlstack.sim.vector import BATCH
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.catalog.base_racing import RacingTask
from rlstack.verification.examiners.racing import VALIDATION
from rlstack.verification.race_plots import draw_races
from rlstack.verification.race_score import score_races
from rlstack.verification.records import RaceRecord
from rlstack.verification.report import environment
from rlstack.verification.trials import TrialColumn, TrialVerification
from rlstack.verification.yardstick import NAME

LAPS = 2
"""Of each race: the first is from rest, the other flies."""

RACES, RACES_IN_ENGINES, RACES_OVER_TOPICS = 50, 20, 20
"""In the batch simulator, in every other simulator in process, and over topics."""

FIRST = ("episodes", "success", "contact", "lap_ratio", "lap_s", "clean_laps", "speed_m_s", "clearance_least_m")
"""Figures that a reader wants first."""

_STREAM = 0x4ACE
"""Keeps the tracks apart from other draws with the same seed."""

_TOLD = (
    "Tracks of seeds that are never trained or tuned on, and by which no run's best policy is chosen. Cars are as the"
    " robot file says, their sensors' noise on. The yardstick drives in process, with the whole track known and its own"
    " pose; the policy senses what it names. Over topics the guard, whose protective stop brakes for walls, is between."
)


def verify_racing(request: Request) -> Verified:
    """Race a policy in every simulator, judge it, and write report and record.

    Raises:
        UserError: The races could not be driven to their end, the robot is no car, or casadi is missing.
    """
    if request.drivers not in (None, (NAME,)):
        raise UserError(f"drivers: races are held against {NAME} on the fastest line, and no other: leave it out.")
    task, contract = RacingTask(), request.loaded.contract
    robot = task.reference(request.robot)
    seeds = tracks_of(request.episodes or RACES, request.seed)
    held, left_out = held_by(request.names, robot, draw_track(seeds[0]).title)
    if not held:
        raise UserError(f"None of these simulators can hold the task: {' '.join(left_out.values())}")
    races: dict[str, tuple[RaceRecord, dict[str, RaceRecord]]] = {}
    asked: dict[str, Bounds] = {}
    options = {"rate_hz": contract.rate_hz, "laps": LAPS, "seed": request.seed}
    for name in held:
        some = seeds[: request.episodes or (RACES if name == BATCH else RACES_IN_ENGINES)]
        mine = race_in_parallel(
            request.policy, some, robot, name, name=contract.name, on_progress=request.shown(name), **options
        )
        shown = request.shown(f"{name}: {NAME}")
        theirs = race_in_parallel(None, some, robot, name, name=NAME, on_progress=shown, **options)
        races[name], asked[name] = (mine, {NAME: theirs}), task.bounds
    for name in (name for name in held if request.topics and name != BATCH):
        label, some = over_topics(name), seeds[: request.episodes or RACES_OVER_TOPICS]
        mine = run_trials(
            race_over_topics,
            some,
            on_progress=request.shown(label),
            policy=request.policy,
            robot=robot,
            backend_name=name,
            name=contract.name,
            laps=LAPS,
            robot_name=request.named,
            seed=request.seed,
        )
        races[label], asked[label] = (mine, races[name][1]), task.bounds_over_topics
    columns = {
        name: TrialColumn(
            simulator=mine.simulator,
            score=score_races(mine, beside[NAME]),
            theirs={who: score_races(one) for who, one in beside.items()},
            bounds=asked[name],
            told=f"{len(mine)} races of {LAPS} laps, seeds {mine.seeds.min()} to {mine.seeds.max()}",
        )
        for name, (mine, beside) in races.items()
    }
    verification = TrialVerification(
        contract=contract,
        sha256=request.sha256,
        robot=robot,
        columns=columns,
        first=FIRST,
        left_out=left_out,
        told=_TOLD,
        pictures=draw_races(robot, races),
        provenance={"seed": request.seed, "training": contract.training, **environment()},
        command=request.command,
    )
    return concluded(request, verification)


def tracks_of(count: int, seed: int) -> list[int]:
    """Return seeds of tracks that no run has seen, in any order."""
    rng = np.random.default_rng([_STREAM, seed])
    known = HELD_OUT_SEEDS[:-VALIDATION]
    return (known.start + rng.choice(len(known), count, replace=False)).tolist()


VERIFIER = verify_racing
