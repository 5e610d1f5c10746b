"""Base of the tasks in a room with landmarks: go to the one that a sentence names, and stay there."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.instruction import TextInput
from rlstack.robots import RobotSpec
from rlstack.schema import value
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.core.phrases import ANY, COLOURS, Said, Templates, Thing, Words, instructions
from rlstack.tasks.core.task import Task
from rlstack.tasks.landmarks.sensing import CAMERA, LandmarkNoise
from rlstack.tasks.landmarks.trials import LANDMARKS, SIDES, LandmarkTrials, Room, arrange, side_of

if TYPE_CHECKING:
    from rlstack.tasks.core.pipeline import Pipeline, Term
    from rlstack.tasks.core.task_card import Row, TaskCard
    from rlstack.tasks.landmarks.scene import Vehicles

_LOOK = AppearanceRange(
    sun=(0.35, 0.75), ambient=(0.3, 0.5), shadows=0.0, warmth=0.06, object_colour=0.06, arm=(0.6, 0.95)
)
"""Light and colours vary less than for arms that know their object: the colours' names must still hold."""


@dataclass(frozen=True, kw_only=True)
class LandmarkTask(Task, ABC):
    """Go to the landmark that a sentence names, seen by a camera, and stay there.

    Scorer, expert and critic know which one it is, and the policy does not. Touching anything fails the trial.
    """

    rate_hz: float = value(10.0, unit="Hz", above=0.0)
    """Control rate."""
    episode_s: float = value(13.0, unit="s", above=0.0)
    arrival_m: float = value(0.4, unit="m", above=0.0)
    """Distance from the landmark's surface to the robot's middle within which it is there."""
    still_m_s: float = value(0.05, unit="m/s", above=0.0)
    """Speed below which it stays."""
    hold_s: float = value(1.0, unit="s", at_least=0.0)
    """A trial succeeds if the robot is there and stays for this long at the trial's end."""
    landmarks: int = value(3, at_least=2, at_most=5)
    """Number of landmarks in the room."""
    words: Words = "train"
    """Sentences and landmarks of training, held-out ones, or both."""
    instruction: Said = "normal"
    """Whether the policy gets the trial's sentence, none (``blank``), or one that names another landmark
    (``swapped``)."""
    alike: float = value(0.2, at_least=0.0, at_most=1.0)
    """Probability that another landmark has the colour of the instructed one, so that the shape tells them apart."""
    by_side: float = value(0.5, at_least=0.0, at_most=1.0)
    """Probability that the sentence tells two landmarks of a shape apart by their sides, not by their colours."""
    short: float = value(0.3, at_least=0.0, at_most=1.0)
    """Probability that a sentence of training says colour or shape alone, where that is enough."""
    halves: float = value(0.2, at_least=0.0, at_most=1.0)
    """Probability that a sentence of training is for a held-out landmark: it says colour, shape or side alone. Policies
    that never go to one learn that it is none to go to, whatever its sentence says."""
    start_m: float = value(0.1, unit="m", at_least=0.0)
    """Largest distance of a start from the room's origin along each axis."""
    start_yaw_rad: float = value(0.15, unit="rad", at_least=0.0, at_most=3.2)
    """Largest yaw at the start, to either side: the camera shows all landmarks then."""
    room: Room = field(default_factory=Room)
    noise: LandmarkNoise = field(default_factory=LandmarkNoise)
    pictures: CameraRange = field(default_factory=lambda: CameraRange(look=_LOOK))
    """Frame rates, latencies and appearances of images."""

    verification: ClassVar[str] = "rlstack.bringup.landmark_verification:VERIFICATION"
    environment_class = "rlstack.tasks.landmarks.environment:LandmarkEnvironment"
    rewards: ClassVar[str] = "sparse"
    differentiable: ClassVar[bool] = False
    templates: ClassVar[Templates]
    """Its sentences."""
    inputs: ClassVar[tuple[str, ...]]
    """The policy's inputs; the instruction and the camera's image and its age are among them."""
    outputs: ClassVar[tuple[str, ...]]
    bounds: ClassVar[Bounds] = Bounds(at_least={"success": 0.85}, at_most={"lost": 0.1})
    bounds_over_topics: ClassVar[Bounds] = Bounds(
        at_least={"success": 0.8}, at_most={"lost": 0.1, "intervened": 0.05}, episodes=ENOUGH_OVER_TOPICS
    )

    def __post_init__(self) -> None:
        if self.hold_s > self.episode_s:
            raise ValueError(
                f"hold_s: {self.hold_s:g} is not allowed: must be at most the length of an episode,"
                f" {self.episode_s:g} s (episode_s)."
            )

    @property
    def text(self) -> TextInput:
        """The words that its policies know."""
        return self.templates.text(LANDMARKS, (ANY, *SIDES))

    @property
    def hold_steps(self) -> int:
        """Number of steps for which the robot must stay."""
        return max(1, round(self.hold_s * self.rate_hz))

    @property
    def guessed(self) -> float:
        """Largest success rate without a sentence: a bit above that of a guess."""
        return 1.0 / self.landmarks + 0.1

    @property
    def start_height_m(self) -> tuple[float, float]:
        """Heights at the start."""
        return 0.0, 0.0

    @property
    def flight_m(self) -> tuple[float, float]:
        """Lowest and highest position of the robot."""
        return -math.inf, math.inf

    @abstractmethod
    def vehicles(self, robot: Any, count: int) -> Vehicles:
        """Return N robots in the kind's batch simulator."""

    @abstractmethod
    def radius_m(self, robot: Any) -> float:
        """Return the radius of the robot seen from above, which must not touch anything."""

    @abstractmethod
    def start_state(self, robot: Any, start: Array) -> dict[str, Array]:
        """Return the state in which an engine's robot begins at a start (4,): x, y, z, m, and yaw, rad."""

    @abstractmethod
    def state_terms(self) -> list[Term]:
        """Return the terms of the robot's own state."""

    @abstractmethod
    def make_pipeline(self, robot: Any, terms: list[Term]) -> Pipeline:
        """Return the pipeline of these terms."""

    @abstractmethod
    def expert_action(self, offset: Array, gap: Array, signals: Mapping[str, Array]) -> Array:
        """Return the scripted expert's actions (N, actions).

        Args:
            offset: (N, 2) m, the landmark in the horizontal frame of the robot.
            gap: (N,) m, distance from its surface.
            signals: The robot's signals (N, ...), without noise.
        """

    def of_mass(self, share: float) -> LandmarkTask | None:
        """Return the task with robots of this share of their file's mass; None: their motion has no mass."""
        return None

    def reference(self, robot: RobotSpec) -> Any:
        """Return the robot to train on.

        Raises:
            UserError: It is of another kind or lacks the camera.
        """
        from rlstack.sim.camera_renderer import camera_of

        reference = super().reference(robot)
        camera_of(reference, CAMERA)
        return reference

    def pipeline(self, robot: Any) -> Pipeline:
        """Return the observation pipeline for ``robot``, with the instruction and then the image last."""
        from rlstack.sim.camera_renderer import camera_of
        from rlstack.tasks.core.camera_observations import CameraImages, Instruction
        from rlstack.tasks.core.observations import Signal
        from rlstack.tasks.landmarks.observations import TurnedSinceSentence

        camera = camera_of(robot, CAMERA)
        age = Signal("age", 1, "s", "of the image", signal=f"{CAMERA}_image_age")
        image = CameraImages((CAMERA,), camera.height, camera.width)
        return self.make_pipeline(robot, [*self.state_terms(), TurnedSinceSentence(), age, Instruction(), image])

    def draw(self, robot: Any, rng: np.random.Generator, count: int) -> LandmarkTrials:
        """Draw trials.

        Raises:
            UserError: The room is too small for its landmarks.
        """
        looks = [LANDMARKS.draw(rng, self.words, self.landmarks, self.alike, 1, self.halves) for _ in range(count)]
        place, yaw = arrange(rng, self.room, looks)
        normal, swapped = zip(*(self._say(rng, *trial) for trial in zip(looks, place)))
        near, far = rng.uniform(-self.start_m, self.start_m, (2, count)), rng.uniform(*self.start_height_m, count)
        turn = rng.uniform(-self.start_yaw_rad, self.start_yaw_rad, count)
        return LandmarkTrials(
            start=np.stack([*near, far, turn], axis=1),
            place=place,
            half=np.array([[self.room.half(thing) for thing in things] for things in looks]),
            yaw=yaw,
            pillar=np.array([[thing.shape == "pillar" for thing in things] for things in looks]),
            colour=np.array([[COLOURS[thing.colour] for thing in things] for things in looks]),
            instruction=instructions(self.instruction, normal, swapped),
        )

    def _say(self, rng: np.random.Generator, things: Sequence[Thing], place: Array) -> tuple[str, str]:
        """Return a sentence for the first landmark, and one for another."""
        twins = [k for k, thing in enumerate(things) if k and thing.shape == things[0].shape]
        noun = LANDMARKS.shapes[things[0].shape]
        other = int(rng.integers(1, len(things)))
        if len(twins) == 1 and rng.random() < self.by_side:
            said = [f"the {side_of(place, *pair)} {noun[0]}" for pair in ((0, twins[0]), (twins[0], 0))]
        else:
            short = self.short if self.words == "train" else 0.0
            half = 1.0 if self.words == "train" and LANDMARKS.is_held_out(things[0]) else short
            said = [
                LANDMARKS.describe(rng, things[k], [one for n, one in enumerate(things) if n != k], some)
                for k, some in ((0, half), (other, short))
            ]
        first, second = (self.templates.sentence(rng, self.words, {"thing": thing}, {}) for thing in said)
        return first, second

    def there(self, gap: Array, speed: Array) -> NDArray[np.bool_]:
        """Return (...) whether robots are at their landmark and stay.

        Args:
            gap: (...) m, distance from its surface.
            speed: (...) m/s.
        """
        return np.asarray((gap <= self.arrival_m) & (speed <= self.still_m_s))

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        room = self.room
        lengths = {"room_depth_m": room.depth_m, "room_width_m": 2.0 * room.half_width_m, "arrival_m": self.arrival_m}
        return {**lengths, "episode_s": self.episode_s, "landmarks": float(self.landmarks)}

    def input_noise(self, robot: Any) -> dict[str, float]:
        """Return the standard deviation of training's noise by input."""
        noise = self.noise
        found = {
            "position": noise.position_m,
            "orientation": noise.orientation_rad,
            "linear_velocity": noise.linear_velocity_m_s,
            "angular_velocity": noise.angular_velocity_rad_s,
        }
        return {name: deviation for name, deviation in found.items() if name in self.inputs}

    @abstractmethod
    def actions(self, robot: Any, pipeline: Pipeline) -> tuple[Row, ...]:
        """Return name, commands at -1 and +1, and unit of each action."""

    def card(self, robot: Any, pipeline: Pipeline) -> TaskCard:
        """Return the task card."""
        from rlstack.tasks.core.task_card import TaskCard, episode_length, timed_out

        there = f"within {self.arrival_m:g} m of the named landmark and slower than {self.still_m_s:g} m/s"
        return TaskCard(
            length=episode_length(self),
            actions=self.actions(robot, pipeline),
            rewards=(("sparse", "1", "a step: -1, and 0 where it is there and stays"),),
            endings=(("lost", "it touches something, or a number is not finite"), timed_out(self)),
            episode="trial",
            criteria=(("succeeds", f"{there} for the last {self.hold_s:g} s of {self.episode_s:g} s"),),
        )
