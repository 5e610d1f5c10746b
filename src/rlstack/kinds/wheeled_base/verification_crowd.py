"""Verification of crowd navigation in held-out scenes, beside planners that sense the same people.

The policy's inputs select one of two published settings: with a scan HEIGHT's halls (arXiv 2411.12150), in which people
are tracked from it; without one CrowdNav's crossing (arXiv 1809.08835), in which their positions are inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.kinds.wheeled_base.verification import DriveVerification
from rlstack.kinds.wheeled_base.verification_reality import crowd_axes
from rlstack.sim.batch_wheeled_base.layout import CIRCLE_ROWS
from rlstack.sim.batch_wheeled_base.parameters import drawn
from rlstack.sim.crowds.scenes import Scenes, circle_crossing, halls
from rlstack.sim.crowds.simulator import with_pedestrians
from rlstack.sim.maps.pool import pool_of
from rlstack.sim.vector import BATCH
from rlstack.sim.world_generators.floor_map import world_of
from rlstack.tasks.catalog.base_crowd import CrowdTask, PedestrianSettings
from rlstack.verification.crowd_trials import drive_among_people
from rlstack.verification.navigation_episodes import NavigationEpisodes
from rlstack.verification.reality import SUCCESS, Axis
from rlstack.verification.request import Request
from rlstack.verification.schedule import Counts
from rlstack.verification.task_verification import ColumnPlan, known_planners, supporting
from rlstack.verification.training_evaluation import Evaluation

MORE, MORE_PEOPLE = 1.5, f"{BATCH}, more people"
"""Factor on the number of people in a further column, and its name."""

HEIGHT = CrowdTask(scene="hall", rate_hz=10.0, episode_s=50.0, arrival_m=0.3)
CROWDNAV = CrowdTask(
    scene="circle_crossing",
    rate_hz=4.0,
    episode_s=25.0,
    arrival_m=0.3,
    people=PedestrianSettings(walking=(5, 5), standing=(0, 0), radius_m=0.3, speed_m_s=1.0),
)

_STREAM = 0xC0D
"""Separates the scenes from other draws with the same seed."""

_EVALUATION = 7_000_000
"""Added to the seed of evaluation: training draws its scenes from small ones."""

_DESCRIPTIONS = {
    "hall": (
        "Halls as HEIGHT draws them (arXiv 2411.12150): 9 x 9 m, 8 to 12 boxes, 5 to 9 people who walk and up to 2 who"
        " stand, most of whom do not see the robot. They are drawn from a random stream of their own; seeds are their"
        " numbers in it. All drivers receive the people that a tracker finds in their scan; over topics the people"
        " node is the tracker. In the batch simulator robots are randomized as in training; in other simulators they"
        " are those of the robot file."
    ),
    "circle_crossing": (
        "Crossings as CrowdNav draws them (arXiv 1809.08835): five people on a circle of 4 m who do not see the robot,"
        " drawn from a random stream of their own; seeds are their numbers in it. All drivers receive the ground"
        " truth of people. benchmarks/crowdnav.py runs the published test episodes themselves."
    ),
}


class CrowdVerification(DriveVerification):
    """See :class:`rlstack.verification.task_verification.TaskVerification`."""

    evaluated = (
        *("episodes", "arrived", "hit_a_person", "hit_a_thing", "timed_out", "gave_up"),
        *("time_s", "length_over_shortest", "closest_m", "disturbed"),
    )
    counts = Counts(
        batch=500, engines=20, topics=20, besides=200, baselines=50, baselines_in_engines=0, reality_baselines=25
    )
    thorough = Counts(
        batch=500,
        engines=100,
        topics=30,
        besides=200,
        baselines=200,
        baselines_in_engines=20,
        reality=200,
        reality_baselines=50,
    )
    # otherwise they would treat people as static obstacles
    planner_options: ClassVar[Mapping[str, Any]] = {"dwa": {"people": True}, "astar_dwa": {"people": True}}

    def __init__(self, request: Request) -> None:
        contract = request.loaded.contract
        setting = HEIGHT if "scan" in {port.name for port in contract.inputs} else CROWDNAV
        super().__init__(replace(request, robot=setting.reference(request.robot)))
        self.description = _DESCRIPTIONS[setting.scene]
        crossing = setting.scene == "circle_crossing"
        self.task: CrowdTask = replace(setting, rate_hz=contract.rate_hz)
        # departures may cost 5 points of what halls, which are hard, are bound to
        self.enough = SUCCESS if crossing else setting.bounds.at_least["success"] - 0.05
        self._bounds = setting.bounds_crossing if crossing else setting.bounds
        chosen = setting.planners if request.thorough and not crossing else setting.planners[:1]
        self.baselines = known_planners(chosen if request.drivers is None else request.drivers, self._bounds)
        self.trials = course_of(self.task, self.robot, request.episodes or self.counts.batch, request.seed)

    def axes(self) -> Sequence[Axis]:
        """Return the axes of the reality grid."""
        crossing = self.task.scene == "circle_crossing"
        return crowd_axes(self.robot, self.task.rate_hz, not crossing, 1.0 if crossing else self.task.people.speed_m_s)

    @staticmethod
    def draw_evaluation(task: Any, robot: WheeledBase, episodes: int, seed: int) -> Any:
        """Return the task's own scenes, not the published test episodes."""
        return task.draw_scenes(np.random.default_rng(_EVALUATION + seed), episodes, robot)

    @staticmethod
    def evaluate(policy: Any, trials: Any, task: Any, robot: WheeledBase, seed: int) -> Evaluation:
        """Return the policy's results, ranked by arrivals, then by time."""
        driven = drive_among_people(
            policy,
            trials,
            robot,
            rate_hz=task.rate_hz,
            arrival_m=task.arrival_m,
            limit_s=task.episode_s,
            name="policy",
            tracked=task.tracked,
            seed=seed,
        )
        figures = driven.figures()
        return Evaluation(figures["arrived"], (round(figures["arrived"], 3), -figures["time_s"]), figures)

    def supported(self, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the simulators that support the robot among people."""
        scene = self.trials.take(slice(0, 1))
        assert scene.movers is not None
        people = scene.movers.people[0].reshape(-1, CIRCLE_ROWS).astype(float)
        return supporting(names, self.robot, with_pedestrians(world_of(scene.pool.maps[0]), people))

    def columns(self, simulator: str) -> list[ColumnPlan]:
        """Return the trials in a simulator; halls in the batch simulator with more people as well."""
        plans = [self.column(simulator, simulator, self.trials, self._bounds)]
        if simulator == BATCH and self.task.scene == "hall":
            count = self._besides
            course = course_of(self.task, self.robot, count, self.request.seed, MORE)
            plans.append(self.column(MORE_PEOPLE, BATCH, course, self.task.bounds_crowded, count))
        return plans

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the published setting, for the provenance."""
        return "", {"setting": self.task.scene}


def course_of(task: CrowdTask, robot: WheeledBase, count: int, seed: int, times: float = 1.0) -> NavigationEpisodes:
    """Return held-out episodes among people, in which robots depart from their file.

    Args:
        task: The setting.
        robot: The base.
        count: N.
        seed: Seed of scenes and departures.
        times: Factor on the setting's number of people, on average.
    """
    rng = np.random.default_rng([_STREAM, seed, round(10.0 * times)])
    if task.scene == "hall":
        hall = task.hall.crowded(times)
        scenes = halls(rng, count, hall.walking[1] + hall.standing[1], hall, robot.radius_m)
    else:
        scenes = circle_crossing(rng, count, task.people.walking[1])
    maps = tuple(replace(drawn_map, seed=number) for number, drawn_map in enumerate(scenes.maps))
    pool = pool_of(maps, boxes=max(1, *(len(m.boxes) for m in maps)), circles=0, fields=False)
    limit_s = np.full(count, task.episode_s)
    movers = Scenes(maps, scenes.people, scenes.persons)
    return NavigationEpisodes(pool, drawn(robot, count, rng), limit_s, movers, tracked=task.tracked)


VERIFICATION = CrowdVerification
