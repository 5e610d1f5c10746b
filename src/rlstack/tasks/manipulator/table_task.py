"""Base of instructed tasks on a table: several coloured blocks, a sentence, and a camera."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.interfaces.instruction import TextInput
from rlstack.kinds.manipulator.spec import Manipulator
from rlstack.schema import value
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.bounds import ENOUGH_OVER_TOPICS, Bounds
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.tasks.core.phrases import ANY, COLOURS, Said, Templates, Thing, Words, instructions
from rlstack.tasks.core.scatter import scatter
from rlstack.tasks.manipulator.departures import ArmRandomisation
from rlstack.tasks.manipulator.phrases import BLOCKS
from rlstack.tasks.manipulator.table_trials import TableTrials, beside
from rlstack.tasks.manipulator.task import ArmTask
from rlstack.tasks.manipulator.trials import OBJECT, USUAL, ArmTrials, ObjectRange, Region, Starts, box_of

if TYPE_CHECKING:
    from rlstack.sim.batch_mujoco.simulator import MujocoSimulator
    from rlstack.sim.obstacle import Obstacle
    from rlstack.tasks.core.pipeline import Term
    from rlstack.tasks.core.task_card import TaskCard
    from rlstack.tasks.manipulator.cameras import CameraBuffer
    from rlstack.tasks.manipulator.pipeline import ArmPipeline

_WIDE = 1.3
"""Width of a tile, as a multiple of a cube's."""
_THICK = 0.75
"""Height of a tile for small arms, whose fingers hold nothing that is lower, likewise."""
_FLAT = 0.7
"""Height below which a block is a tile, as a share of its width: those of all arms are flatter, and no cube is."""

_LOOK = AppearanceRange(sun=(0.35, 0.75), ambient=(0.3, 0.5), shadows=0.3, grey=0.5, warmth=0.06, object_colour=0.06)
"""Light and colours vary less than in other tasks: the colours' names must still hold."""


@dataclass(frozen=True, kw_only=True)
class ActionShift:
    """A change between the policy's actions and the arm's motion, which neither demonstrations nor the expert know."""

    yaw_rad: float = value(0.0, unit="rad")
    """Rotation of horizontal motions about the vertical."""
    gain: float = value(1.0, above=0.0)
    """Factor of all motions of the tool."""


@dataclass(frozen=True, kw_only=True)
class TableRandomisation(ArmRandomisation):
    """Randomisation of training beyond that of trials, drawn for each episode; none by default."""

    alike: float = value(0.0, at_least=0.0, at_most=1.0)
    """Probability, in training, that another block has the colour of the instructed one, if it is more than the task's
    own: shapes are learned where they tell blocks apart."""


@dataclass(frozen=True, kw_only=True)
class TableTask(ArmTask):
    """Do what a sentence says with one of several blocks on a table, seen by a camera.

    The goal follows from the sentence; scorer, expert and critic know it, and the policy does not. Moving another
    block fails the trial.
    """

    episode_s: float = value(4.0, unit="s", above=0.0)
    rewards: Literal["dense", "sparse"] = "sparse"
    blocks: int = value(3, at_least=2, at_most=5)
    """Number of blocks on the table."""
    words: Words = "train"
    """Sentences and blocks of training, held-out ones, or both."""
    instruction: Said = "normal"
    """Whether the policy gets the trial's sentence, none (``blank``), or one that says something else (``swapped``)."""
    alike: float = value(0.1, at_least=0.0, at_most=1.0)
    """Probability that another block has the colour of the instructed one, so that the shape tells them apart."""
    short: float = value(0.3, at_least=0.0, at_most=1.0)
    """Probability that a sentence of training says a block's colour or shape alone, where that is enough."""
    halves: float = value(0.2, at_least=0.0, at_most=1.0)
    """Probability that a sentence of training is for a held-out block, and says colour or shape alone. Policies that
    never handle one learn that it is none to handle, whatever its sentence says."""
    apart_m: float = value(0.12, unit="m", at_least=0.0)
    """Least distance between two blocks' centres."""
    disturbed_m: float = value(0.02, unit="m", above=0.0)
    """Largest distance that another block may be moved."""
    starts: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.58), y_m=(-0.15, 0.15), z_m=(0.12, 0.2)))
    places: Region = field(default_factory=lambda: Region(x_m=(0.4, 0.6), y_m=(-0.2, 0.2)))
    """Start region of the blocks."""
    block: ObjectRange = field(default_factory=lambda: ObjectRange(half_m=(0.02, 0.024), yaw_rad=0.4))
    """Distribution of cubes; tiles are 1.3 times as wide."""
    flat: float = value(0.42, above=0.0)
    """Height of a tile, as a multiple of a cube's."""
    pictures: CameraRange = field(default_factory=lambda: CameraRange(look=_LOOK))
    """Frame rates, latencies and appearances of images."""
    cameras: tuple[str, ...] = ("scene",)
    """Cameras of the robot file that the policy sees through."""
    action_shift: ActionShift = field(default_factory=ActionShift)
    randomisation: TableRandomisation = field(default_factory=TableRandomisation)

    environment_class = "rlstack.tasks.manipulator.table_environment:TableEnvironment"
    scene = "rlstack.tasks.manipulator.table_scene:TableScene"
    verification = "rlstack.kinds.manipulator.verification_table:VERIFICATION"
    outputs = ("joint_target",)
    moved = "object_position"
    on_table = True
    least_joints = 5
    templates: ClassVar[Templates]
    """Its sentences."""
    named: ClassVar[int] = 1
    """Number of blocks that a sentence names."""
    hand: ClassVar[bool] = False
    """Whether its policies are taught where the hand is in the images, too: what a camera's pose is not known to moves
    hand and blocks alike."""
    down_m: ClassVar[float] = 0.06
    """Height below which the tool is down at the table, from where policies know how far it went."""
    lengths: ClassVar[tuple[str, ...]] = ("apart_m", "disturbed_m", "tolerance_m")
    """Settings that are smaller for a smaller arm, whose blocks are."""
    guessed: ClassVar[float] = 0.1
    """Largest success rate without a sentence: a bit above that of a guess among three blocks."""
    bounds = Bounds(at_least={"success": 0.85}, at_most={"lost": 0.1})
    bounds_over_topics = Bounds(
        at_least={"success": 0.8}, at_most={"lost": 0.1, "intervened": 0.05}, episodes=ENOUGH_OVER_TOPICS
    )

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The policy's inputs."""
        images = (f"{camera}_image{age}" for camera in self.cameras for age in ("", "_age"))
        return ("joint_position", "joint_velocity", "instruction", *images)

    @property
    def text(self) -> TextInput:
        """The words that its policies know."""
        return self.templates.text(BLOCKS, (ANY,) if self.short or self.halves else ())

    def describe(self, rng: np.random.Generator, blocks: Sequence[Thing], which: int) -> str:
        """Return words for one of the blocks that fit no other one."""
        rest = [block for k, block in enumerate(blocks) if k != which]
        short = self.short if self.words == "train" else 0.0
        if self.halves and self.words == "train" and BLOCKS.is_held_out(blocks[which]):
            short = 1.0  # no sentence of training may combine its colour and shape
        return BLOCKS.describe(rng, blocks[which], rest, short)

    @abstractmethod
    def ask(self, rng: np.random.Generator, blocks: Sequence[Thing]) -> tuple[Any, str, str]:
        """Return what is asked for, the sentence that says so, and one that asks for something else with the blocks."""

    def names_two(self, goal: Array) -> NDArray[np.bool_]:
        """Return (N,) whether sentences with goals (N, 3) m name a second block, the first one beside the object."""
        return np.full(len(goal), self.named > 1)

    @abstractmethod
    def arrange(self, rng: np.random.Generator, asked: Sequence[Any], half: Array, yaw: Array) -> tuple[Array, Array]:
        """Return the blocks' positions (N, M, 3) m and the goals (N, 3) m.

        Args:
            rng: Random generator.
            asked: What each of the N trials asks for.
            half: (N, M, 3) half lengths, m.
            yaw: (N, M) rad.
        """

    def practised(self) -> Self:
        """Return the task as training draws its scenes, which may be harder than those of trials."""
        return replace(self, alike=max(self.alike, self.randomisation.alike))

    def fitted(self, robot: Manipulator) -> TableTask:
        """Return the task adapted to ``robot``: to its work area and its gripper, with lengths by that gripper."""
        task: Any = super().fitted(robot)
        if robot.work is None:
            return cast(TableTask, task)
        share, usual = robot.work.opening_m / USUAL.opening_m, type(self)()
        same = [name for name in self.lengths if getattr(self, name) == getattr(usual, name)]
        lengths = {name: share * getattr(task, name) for name in same}
        return cast(TableTask, replace(task, **lengths, flat=_THICK if self.flat == usual.flat else self.flat))

    def scattered(self, rng: np.random.Generator, half: Array) -> Array:
        """Return positions (N, M, 3) m of blocks with half lengths (N, M, 3) m that stand apart on the table."""
        count, blocks = half.shape[:2]
        position = scatter(
            lambda index: self.places.draw(rng, len(index) * blocks).reshape(-1, blocks, 3),
            lambda index, tried: np.ones(len(index), np.bool_),
            count,
            self.apart_m,
        )
        position[..., 2] = half[..., 2]
        return position

    def sizes(self, rng: np.random.Generator, looks: Sequence[Sequence[Thing]]) -> Array:
        """Return the half lengths (N, M, 3) m of M blocks in each of N trials."""
        half = rng.uniform(*self.block.half_m, (len(looks), self.blocks, 1)) * np.ones(3)
        tiles = np.array([[block.shape == "tile" for block in blocks] for blocks in looks])
        return np.where(tiles[..., None], np.array([_WIDE, _WIDE, self.flat]) * half, half)

    def shown(self, half: Array, colour: Array) -> tuple[Array, Array]:
        """Return half lengths and colours (N, boxes, 3) of :attr:`boxes` for those of the blocks (N, M, 3)."""
        return half, colour

    def looks(self, half: Array, orientation: Array) -> Array:
        """Return whether blocks are tiles, 1 or -1, and cos and sin of four times their yaw, (N, M, 3).

        See :meth:`.ChunkEnvironment.image_places`.

        Args:
            half: (N, M, 3) half lengths, m.
            orientation: (N, M, 4) quaternions, x first.
        """
        x, y, z, w = np.moveaxis(orientation, -1, 0)
        turned = 4.0 * np.arctan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))
        tile = np.where(half[..., 2] < _FLAT * half[..., 0], 1.0, -1.0)
        return np.stack([tile, np.cos(turned), np.sin(turned)], axis=-1)

    @property
    def boxes(self) -> tuple[str, ...]:
        """Names of the geoms whose sizes and colours differ between trials."""
        return (OBJECT, *(beside(k) for k in range(self.blocks - 1)))

    def vary_other(
        self,
        worlds: MujocoSimulator,
        index: NDArray[np.intp],
        number: int,
        place: Array,
        half: Array,
        mass: Array,
        friction: Array,
    ) -> None:
        """Set a block beside the object in some worlds.

        Args:
            worlds: Worlds of N arms.
            index: (n,) indices of the worlds.
            number: Number of the block, from 0.
            place: (n, 3) m, where it starts.
            half: (n, 3) m.
            mass: (n,) kg.
            friction: (n,).
        """
        worlds.vary(index, beside(number), half, mass, friction)

    def place(self, rng: np.random.Generator, starts: Starts) -> TableTrials:
        """Draw trials for N arms at their starts."""
        count, drawn = len(starts.joints), self.block
        looks, asked, normal, swapped = [], [], [], []
        for _ in range(count):
            blocks = BLOCKS.draw(rng, self.words, self.blocks, self.alike, self.named, self.halves)
            wanted, sentence, other = self.ask(rng, blocks)
            looks.append(blocks)
            asked.append(wanted)
            normal.append(sentence)
            swapped.append(other)
        half = self.sizes(rng, looks)
        yaw = rng.uniform(-drawn.yaw_rad, drawn.yaw_rad, (count, self.blocks))
        position, goal = self.arrange(rng, asked, half, yaw)
        return TableTrials(
            joints=starts.joints,
            goal=goal,
            position=position[:, 0],
            yaw=yaw[:, 0],
            half=half[:, 0],
            mass=rng.uniform(*drawn.mass_kg, count),
            friction=rng.uniform(*drawn.friction, count),
            instruction=instructions(self.instruction, normal, swapped),
            colour=np.array([[COLOURS[block.colour] for block in blocks] for blocks in looks]),
            beside_position=position[:, 1:],
            beside_yaw=yaw[:, 1:],
            beside_half=half[:, 1:],
        )

    def disturbed(self, before: Array, now: Array) -> NDArray[np.bool_]:
        """Return (N,) whether one of the other blocks was moved too far.

        Args:
            before: (N, M - 1, 3) m, at the start.
            now: (N, M - 1, 3) m.
        """
        return np.asarray((np.linalg.norm(now - before, axis=-1) > self.disturbed_m).any(axis=-1))

    def failed(self, trials: ArmTrials, number: int, position: Callable[[str], Array]) -> bool:
        """Return whether a trial in an engine has moved another block too far."""
        assert isinstance(trials, TableTrials)
        now = np.array([position(beside(k)) for k in range(self.blocks - 1)])
        return bool(self.disturbed(trials.beside_position[number], now))

    def build(self, spec: Any) -> None:
        """Add all blocks to the scene."""
        from rlstack.sim.arms import scene

        scene.Block().add(spec)
        for k in range(self.blocks - 1):
            scene.Block(name=beside(k)).add(spec)

    def place_objects(self, worlds: MujocoSimulator, index: NDArray[np.intp], trials: ArmTrials) -> None:
        """Place all blocks at the starts of trials (n), in some worlds."""
        super().place_objects(worlds, index, trials)
        assert isinstance(trials, TableTrials)
        zero = np.zeros(len(index))
        for k in range(self.blocks - 1):
            turn = trials.beside_yaw[:, k] / 2
            orientation = np.stack([zero, zero, np.sin(turn), np.cos(turn)], axis=1)
            worlds.place(index, beside(k), trials.beside_position[:, k], orientation)

    def object_obstacle(self, trials: ArmTrials, number: int) -> Obstacle:
        """Return the instructed block of one trial as a free box in an engine's world."""
        assert isinstance(trials, TableTrials)
        place, yaw = trials.position[number], float(trials.yaw[number])
        return box_of(trials, number, OBJECT, place, yaw, _colour(trials.colour[number, 0]))

    def fixture_obstacles(self, trials: ArmTrials, number: int) -> tuple[Obstacle, ...]:
        """Return the other blocks of one trial."""
        assert isinstance(trials, TableTrials)
        return tuple(
            box_of(
                trials,
                number,
                beside(k),
                trials.beside_position[number, k],
                float(trials.beside_yaw[number, k]),
                _colour(trials.colour[number, k + 1]),
                trials.beside_half[number, k],
            )
            for k in range(self.blocks - 1)
        )

    def camera_buffer(self, robot: Manipulator, count: int, seed: int) -> CameraBuffer:
        """Return the cameras of N arms."""
        from rlstack.tasks.manipulator.cameras import CameraBuffer

        return CameraBuffer(robot, self.build, self.cameras, self.boxes, self.pictures, count, seed)

    def pipeline(self, robot: Manipulator) -> ArmPipeline:
        """Return the observation pipeline for ``robot``, in which the shift acts between action and motion."""
        pipeline = super().pipeline(robot)
        shift = self.action_shift
        pipeline.shift_actions(shift.yaw_rad, shift.gain)
        return pipeline

    def terms(self, robot: Manipulator) -> list[Term]:
        """Return the terms of the observation, with the instruction and then the images last."""
        from rlstack.sim.camera_renderer import camera_of
        from rlstack.tasks.core.camera_observations import CameraImages, Instruction
        from rlstack.tasks.manipulator import camera_observations, observations

        first = camera_of(robot, self.cameras[0])
        grips = "gripper" in self.axes
        return [
            *observations.tool_terms(self.workspace.middle),
            *([observations.tool_yaw()] if "yaw" in self.axes else []),
            *([observations.Opening()] if grips else []),
            observations.SinceDescent(self.down_m),
            observations.SinceSentence(self.down_m),
            camera_observations.ToolPoseAtImage(self.cameras, robot, self.rate_hz),
            Instruction(),
            CameraImages(self.cameras, first.height, first.width),
        ]

    def card(self, robot: Manipulator, pipeline: ArmPipeline) -> TaskCard:
        """Return the task card."""
        card = super().card(robot, pipeline)
        lost = f"another block was moved by more than {self.disturbed_m:g} m, {card.endings[0][1]}"
        return replace(card, endings=(("lost", lost), *card.endings[1:]))

    def envelope(self) -> dict[str, float]:
        """Return the conditions that the policy was trained for, with SI units in the keys."""
        shift = self.action_shift
        changed = {"action_shift_yaw_rad": shift.yaw_rad, "action_shift_gain": shift.gain}
        conditions = {"tolerance_m": self.tolerance_m, "episode_s": self.episode_s, "blocks": float(self.blocks)}
        shown = changed if shift != ActionShift() else {}
        return {**conditions, **shown, **self.places.ends("block", "xy"), **self.starts.ends("start")}


def _colour(rgb: Array) -> tuple[float, float, float]:
    red, green, blue = map(float, rgb)
    return red, green, blue
