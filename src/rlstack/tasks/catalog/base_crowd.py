"""base_crowd: go to a goal among pedestrians, few of whom avoid the robot.

Two settings are built in: ``circle_crossing`` is CrowdNav's published protocol (arXiv 1809.08835), whose robot knows
the pedestrians' positions; in ``hall``, HEIGHT's (arXiv 2411.12150), it tracks them in its scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from rlstack.fused import clip, greater, maximum, minimum, where
from rlstack.kinds.wheeled_base.spec import WheeledBase
from rlstack.schema import value
from rlstack.sim.batch_wheeled_base.clearance import box_distance
from rlstack.sim.batch_wheeled_base.layout import ABSENT_M, BOX_ROWS, CIRCLE_ROWS, STATE
from rlstack.sim.crowds.scenes import Hall, Scenes, circle_crossing, halls
from rlstack.sim.crowds.walking_models import PERSON, PERSON_WIDTH, Orca, SocialForce
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.wheeled_base.rewards import BaseReward, BaseTransition, RewardTerm
from rlstack.tasks.wheeled_base.task import BaseTask, ScanObservation

if TYPE_CHECKING:
    import torch

    from rlstack.tasks.core.pipeline import Pipeline, Term
    from rlstack.tasks.core.task_card import Row
    from rlstack.tasks.wheeled_base.maps import MapArrays


@dataclass(frozen=True, kw_only=True)
class CrowdObservation(ScanObservation):
    """Settings of the observation."""

    slots: int = value(12, at_least=1, at_most=64)
    """Number of observed pedestrians, the nearest ones."""
    reach_m: float = value(6.0, unit="m", above=0.0)
    """Distance within which pedestrians are observed."""
    own_motion: bool = False
    """Whether a robot that knows its pedestrians also observes its own velocity and last action: what it needs if it
    cannot take any velocity at once."""
    rays: int = value(90, at_least=8, at_most=720)
    half_m: float = value(0.4, unit="m", above=0.0)
    goal_bound_m: float = value(3.0, unit="m", above=0.0)


@dataclass(frozen=True, kw_only=True)
class PedestrianSettings:
    """Settings of the pedestrians."""

    walking: tuple[int, int] = value((5, 9), at_least=0, at_most=30)
    standing: tuple[int, int] = value((0, 2), at_least=0, at_most=30)
    sees_robot: float = value(0.2, at_least=0.0, at_most=1.0)
    """Share of walking pedestrians that also avoid the robot."""
    avoiding: float = value(1.0, at_least=0.0, at_most=1.0)
    """Share of walking pedestrians that avoid others; the rest walk straight on."""
    rule: Literal["orca", "social_force"] = "orca"
    speed_m_s: float = value(0.5, unit="m/s", above=0.0)
    faster_m_s: float | None = value(None, unit="m/s", above=0.0)
    """Greatest walking speed in training, if it is drawn for each pedestrian, from ``speed_m_s`` on."""
    reacting: float = value(0.0, at_least=0.0, at_most=1.0)
    """Share of a circle crossing's pedestrians in training that also avoid the robot; in the protocol, none."""
    radius_m: float = value(0.25, unit="m", above=0.0)


@dataclass(frozen=True, kw_only=True)
class CrowdReward(BaseReward):
    """Weights of the reward terms, per second except ``lost``."""

    distance: float = value(0.0)
    """Straight-line distance to the goal, m."""
    away: float = value(0.0)
    """1 until the episode is over."""
    people: float = value(-1.0)
    """For each pedestrian, the missing share of ``people_margin_m``, and its square."""
    people_margin_m: float = value(0.2, unit="m", above=0.0)
    things: float = value(0.0)
    """The same for each box, with ``margin_m``."""


@dataclass(frozen=True, kw_only=True)
class CrowdTask(BaseTask):
    """Go to a goal among pedestrians."""

    scene: Literal["circle_crossing", "hall"] = "hall"
    scenes: int = value(2048, at_least=1)
    """Number of training scenes."""
    through_m: float = value(0.25, unit="m", at_least=0.0)
    """Depth at which a collision ends a training episode: until then its gradient leads out of it."""
    people: PedestrianSettings = field(default_factory=PedestrianSettings)
    observation: CrowdObservation = field(default_factory=CrowdObservation)
    reward: CrowdReward = field(default_factory=CrowdReward)

    verification: ClassVar[str] = "rlstack.kinds.wheeled_base.verification_crowd:VERIFICATION"
    planners = ("orca", "dwa")
    # in halls; HEIGHT's policy reaches 88% (arXiv 2411.12150)
    bounds = Bounds(at_least={"success": 0.85, "lead_high": 0.0}, at_most={"collided": 0.12})
    bounds_over_topics = Bounds(
        at_least={"success": 0.8}, at_most={"collided": 0.15, "intervened": 0.05}, episodes=ENOUGH_OVER_TOPICS
    )
    bounds_crowded: ClassVar[Bounds] = Bounds(at_least={"success": 0.77, "lead_high": 0.0}, at_most={"collided": 0.2})
    """Pass bounds with half as many pedestrians again."""
    bounds_crossing: ClassVar[Bounds] = Bounds(at_least={"success": 0.95, "lead_high": 0.0}, at_most={"collided": 0.05})
    """Pass bounds in CrowdNav's setting."""

    @property
    def tracked(self) -> bool:
        """Whether pedestrians are tracked in the scan; otherwise their true state is known."""
        return self.scene == "hall"

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The policy's inputs."""
        motion = ("position", "orientation", "linear_velocity", "angular_velocity")
        people = ("people_position", "people_velocity", "people_radius")
        scan = ("scan",) if self.scene == "hall" else ()
        return (*motion, *scan, "goal_position", *people)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The policy's outputs."""
        return ("twist",) if self.scene == "hall" else ("planar_twist",)

    @property
    def obstacles(self) -> tuple[int, int]:
        """Largest numbers of static boxes and circles in each robot's map."""
        return (16, 0) if self.scene == "hall" else (1, 0)

    @property
    def hall(self) -> Hall:
        """Distribution of halls."""
        known = {field.name for field in fields(Hall)}
        return Hall(**{name: setting for name, setting in asdict(self.people).items() if name in known})

    def draw_scenes(self, rng: np.random.Generator, count: int, robot: WheeledBase) -> Scenes:
        """Draw training scenes."""
        if self.scene == "circle_crossing":
            return self._varied(rng, circle_crossing(rng, count, self.people.walking[1]), self.people.reacting)
        return self._varied(rng, halls(rng, count, self.observation.slots, self.hall, robot.radius_m))

    def _varied(self, rng: np.random.Generator, scenes: Scenes, reacting: float = 0.0) -> Scenes:
        """Return scenes in which pedestrians have speeds of their own, and some more avoid the robot."""
        people = self.people
        persons = scenes.persons.reshape(len(scenes), -1, PERSON_WIDTH).copy()
        if people.faster_m_s is not None:
            speeds = rng.uniform(people.speed_m_s, people.faster_m_s, persons.shape[:2])
            persons[..., PERSON["speed"]] = speeds[..., None]
        if reacting:
            sees = rng.random(persons.shape[:2]) < reacting
            persons[..., PERSON["sees_robot"]] = np.maximum(persons[..., PERSON["sees_robot"]], sees[..., None])
        return replace(scenes, persons=persons.reshape(len(scenes), -1))

    def draw_maps(self, robot: WheeledBase, stage: int, rng: np.random.Generator, device: torch.device) -> MapArrays:
        """Draw scenes."""
        from rlstack.sim.maps.pool import pool_of
        from rlstack.tasks.wheeled_base.maps import MapArrays

        scenes, (boxes, circles) = self.draw_scenes(rng, self.scenes, robot), self.obstacles
        furnished = any(len(m.boxes) or len(m.circles) for m in scenes.maps)
        pool = pool_of(scenes.maps, boxes=boxes, circles=circles, fields=furnished)
        return MapArrays(pool, device, scenes=scenes, goal_m=2.0 * self.arrival_m)

    @property
    def people_rule(self) -> Orca | SocialForce:
        """How pedestrians walk."""
        return Orca() if self.people.rule == "orca" else SocialForce()

    @property
    def people_slots(self) -> int:
        """Largest number of pedestrians in a scene."""
        return self.people.walking[1] if self.scene == "circle_crossing" else self.observation.slots

    def more_signals(self, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pedestrians' signals."""
        sensed = rows["people"] if self.departures.people else rows["circles"]
        people = sensed[-CIRCLE_ROWS * self.people_slots :].reshape(-1, CIRCLE_ROWS)
        level = np.zeros((len(people), 1), dtype=object)
        place = people[:, :2]
        if self.scene == "hall":
            # a tracker reports pedestrians that the lidar sees
            robot, boxes = rows["state"][STATE["position"]], rows["boxes"].reshape(-1, BOX_ROWS)
            place = np.array([_seen(k, people, robot, boxes) for k in range(len(people))], dtype=object)
        return {
            "people_position": np.concatenate([place, level], axis=1),
            "people_velocity": np.concatenate([people[:, 3:], level], axis=1),
            "people_radius": people[:, 2],
        }

    def terms(self, robot: WheeledBase) -> list[Term]:
        """Return the terms of the observation."""
        from rlstack.tasks.core.observations import ActionHistory
        from rlstack.tasks.wheeled_base import observations

        settings = self.observation
        if self.scene == "circle_crossing":
            people = observations.NearestPedestrians(self.people_slots, 1e2, robot.radius_m, "goal")
            if settings.own_motion:
                past = ActionHistory(2, name="last_action", memory="past_actions")
                return [observations.GoalRange(), observations.GoalFrameSpeed(), past, people]
            return [observations.GoalRange(), people]
        return [
            observations.GoalOffset(settings.goal_bound_m),
            observations.GoalRange(),
            observations.Twist(),
            ActionHistory(2, name="last_action", memory="past_actions"),
            self.scan_term(robot),
            observations.PedestrianEncounters(settings.slots, settings.reach_m, robot.radius_m),
        ]

    def pipeline(self, robot: WheeledBase) -> Pipeline:
        """Return the observation pipeline for ``robot``."""
        if self.scene == "hall":
            from rlstack.tasks.wheeled_base.pipeline import GoalAttraction

            fastest, turning = self.speeds.range(robot)[1]
            return GoalAttraction(self.terms(robot), fastest, turning, robot.radius_m)
        from rlstack.tasks.wheeled_base.pipeline import GoalFrameVelocity

        return GoalFrameVelocity(self.terms(robot), self.fastest_m_s(robot))

    def reward_terms(self) -> Mapping[str, tuple[float, RewardTerm]]:
        """Return ``{name: (weight, term)}`` of the terms with a weight; each maps a transition to an expression."""
        terms: dict[str, RewardTerm] = {
            "distance": lambda s: s.distance,
            "away": lambda s: 1.0 + 0.0 * s.distance,
            "people": self._crowding,
            "things": self._crampedness,
        }
        return {**super().reward_terms(), **self.weighted(terms)}

    def lost(self, view: BaseTransition) -> Any:
        """Return whether the episode is over: a deep collision, or arrival.

        Nothing after arrival matters, and the direction to a goal underfoot is ill-defined.
        """
        return (view.clearance < -self.through_m) | (view.distance < self.arrival_m)

    def actions(self, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""
        if self.scene == "hall":
            names, most = ("pull ahead", "pull to the left"), "4 times the goal's"
            return tuple((name, f"-{most}", f"+{most}", "-") for name in names)
        names = ("towards the goal", "across, to the left")
        fastest = pipeline.maximum.tolist()
        return tuple((name, f"{-most:g}", f"{most:g}", "m/s") for name, most in zip(names, fastest))

    def endings(self) -> tuple[Row, ...]:
        """Return name and condition of each ending of a training episode."""
        deep = f"{self.through_m:g} m deep in somebody or something, or nearer than {self.arrival_m:g} m to the goal"
        return (("lost", deep), super().endings()[-1])

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        return {
            "arrival_m": self.arrival_m,
            "episode_s": self.episode_s,
            "people": float(self.people.walking[1] + (self.people.standing[1] if self.scene == "hall" else 0)),
            "people_speed_m_s": self._fastest_people_m_s,
        }

    @property
    def _fastest_people_m_s(self) -> float:
        if self.people.faster_m_s is not None:
            return self.people.faster_m_s
        return 1.0 if self.scene == "circle_crossing" else self.people.speed_m_s

    def _crowding(self, view: BaseTransition) -> Any:
        """Return the cost of proximity to pedestrians, from each one's closest approach in the period."""
        period, margin, radius = 1.0 / self.rate_hz, self.reward.people_margin_m, view.footprint[0][2]
        before, after = view.rows["state"][STATE["position"]], view.state[STATE["position"]]
        total: Any = 0.0
        for circle in view.rows["circles"][-CIRCLE_ROWS * self.people_slots :].reshape(-1, CIRCLE_ROWS):
            x1, y1 = circle[0] - after[0], circle[1] - after[1]
            x0, y0 = circle[0] - circle[3] * period - before[0], circle[1] - circle[4] * period - before[1]
            wx, wy = x1 - x0, y1 - y0
            share = clip(-(x0 * wx + y0 * wy) / (wx * wx + wy * wy + 1e-9), 0.0, 1.0)
            x, y = x0 + share * wx, y0 + share * wy
            gap = np.sqrt(x * x + y * y + 1e-6) - circle[2] - radius
            total = total + _missing(gap, margin)
        return total

    def _crampedness(self, view: BaseTransition) -> Any:
        x, y = view.state[STATE["position"]]
        total: Any = 0.0
        for box in view.rows["boxes"].reshape(-1, BOX_ROWS):
            total = total + _missing(box_distance(x, y, box) - view.footprint[0][2], self.reward.margin_m)
        return total


def _seen(which: int, people: Any, robot: Any, boxes: Any) -> list[Any]:
    """Return a pedestrian's state; far away if the centre is hidden from the robot."""
    x, y = people[which][:2]
    dx, dy = x - robot[0], y - robot[1]
    square = dx * dx + dy * dy + 1e-9
    hidden: Any = greater(0.0, square)
    for box in boxes:
        ax, ay = robot[0] - box[0], robot[1] - box[1]
        px, py = box[2] * ax + box[3] * ay, box[2] * ay - box[3] * ax
        qx, qy = box[2] * dx + box[3] * dy, box[2] * dy - box[3] * dx
        ends = []
        for start, step, half in ((px, qx, box[4]), (py, qy, box[5])):
            step = where(greater(1e-6, np.abs(step)), 1e-6, step)
            one, other = (-half - start) / step, (half - start) / step
            ends.append((minimum(one, other), maximum(one, other)))
        enters = maximum(maximum(ends[0][0], ends[1][0]), 0.0)
        leaves = minimum(minimum(ends[0][1], ends[1][1]), 1.0)
        hidden = hidden | greater(leaves, enters)
    for k, other in enumerate(people):
        if k == which:
            continue
        ox, oy = other[0] - robot[0], other[1] - robot[1]
        share = (ox * dx + oy * dy) / square
        aside = np.abs(ox * dy - oy * dx)
        between = greater(share, 0.0) & greater(1.0, share)
        hidden = hidden | (between & greater(other[2] * other[2] * square, aside * aside))
    return [where(hidden, ABSENT_M, x), where(hidden, ABSENT_M, y)]


def _missing(gap: Any, margin: float) -> Any:
    """Return the missing share of a margin and its square, bounded deep inside."""
    share = maximum(1.0 - gap * (1.0 / margin), 0.0)
    return share + minimum(share * share, 4.0)


TASK = CrowdTask
