"""table_drawer: open the drawer that a sentence names, by its colour or its side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.schema import value
from rlstack.tasks.catalog.arm_drawer import GRAVITY, HEIGHT, RAIL, TAB, DrawerReward, outward
from rlstack.tasks.core.phrases import COLOURS, Templates, Thing
from rlstack.tasks.manipulator.expert import GraspExpert
from rlstack.tasks.manipulator.table_task import TableTask
from rlstack.tasks.manipulator.table_trials import TableTrials, beside
from rlstack.tasks.manipulator.trials import OBJECT, ArmTrials, ObjectRange, Region

if TYPE_CHECKING:
    from rlstack.sim.arms.drawer import Drawer
    from rlstack.sim.batch_mujoco.simulator import MujocoSimulator
    from rlstack.sim.obstacle import Obstacle

_SIDES = ("left", "right")


@dataclass(frozen=True, kw_only=True)
class TableDrawerTask(TableTask):
    """Open the named one of two drawers, which stand side by side."""

    blocks: int = value(2, at_least=2, at_most=2)
    alike: float = value(0.0, at_least=0.0, at_most=0.0)
    """Both drawers never have one colour: they have no shapes to tell them apart."""
    tolerance_m: float = value(0.02, unit="m", above=0.0)
    open_m: float = value(0.1, unit="m", above=0.0, at_most=0.19)
    """Distance to pull."""
    starts: Region = field(default_factory=lambda: Region(x_m=(0.35, 0.48), y_m=(-0.12, 0.12), z_m=(0.2, 0.3)))
    places: Region = field(default_factory=lambda: Region(x_m=(0.53, 0.6), y_m=(0.115, 0.16), z_m=(HEIGHT, HEIGHT)))
    """Region of the closed left drawer's tab; the right one's is its mirror image. Both cabinets face the arm."""
    block: ObjectRange = field(
        default_factory=lambda: ObjectRange(half_m=(0.006, 0.011), mass_kg=(0.5, 2.0), friction=(0.6, 1.2), yaw_rad=0.0)
    )
    """Distribution of tabs: ``half_m`` is across; the mass is the drawer's, and its friction is proportional to it."""
    reward: DrawerReward = field(default_factory=DrawerReward)

    axes = ("x", "y", "z", "yaw", "gripper")
    start_opening = 1.0
    least_joints = 6
    on_table = False
    fits = False
    guessed = 0.6
    templates = Templates(
        train=("open the {which} drawer", "pull the {which} drawer open", "pull open the {which} drawer"),
        held_out=("please open the {which} drawer", "i need the {which} drawer open", "the {which} drawer, open it"),
        words={"which": {name: ((name,), ()) for name in (*_SIDES, *COLOURS)}},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.randomisation.alike:
            raise ValueError(
                f"randomisation: alike: {self.randomisation.alike:g} is not allowed: drawers have no shapes to tell"
                " them apart."
            )

    def ask(self, rng: np.random.Generator, blocks: Sequence[Thing]) -> tuple[str, str, str]:
        """Return the side, a sentence for the drawer there, and one for the other drawer."""
        side, other = rng.permutation(_SIDES).tolist()
        by_colour = rng.random() < 0.5
        said = [blocks[0].colour, blocks[1].colour] if by_colour else [side, other]
        normal, swapped = (self.templates.sentence(rng, self.words, {}, {"which": which}) for which in said)
        return side, normal, swapped

    def sizes(self, rng: np.random.Generator, looks: Sequence[Sequence[Thing]]) -> Array:
        """Return the half lengths (N, 2, 3) m of the tabs."""
        half = np.tile(TAB, (len(looks), self.blocks, 1))
        half[..., 1] = rng.uniform(*self.block.half_m, (len(looks), 1))
        return half

    def arrange(self, rng: np.random.Generator, asked: Sequence[Any], half: Array, yaw: Array) -> tuple[Array, Array]:
        """Return the closed tabs' positions (N, 2, 3) m, and the goals (N, 3) m of the first ones."""
        count = len(asked)
        position = self.places.draw(rng, 2 * count).reshape(count, 2, 3)
        left = np.array([side == "left" for side in asked])
        position[..., 1] *= np.where(np.stack([left, ~left], axis=1), 1.0, -1.0)
        yaw[:] = np.arctan2(position[..., 1], position[..., 0])
        return position, position[:, 0] - self.open_m * outward(position[:, 0])

    def build(self, spec: Any) -> None:
        """Add both drawers to the scene."""
        for drawer in self._drawers():
            drawer.add(spec)

    @property
    def boxes(self) -> tuple[str, ...]:
        """Names of the geoms whose sizes and colours differ between trials: tab, front and cabinet of each drawer."""
        return tuple(name for one in self._drawers() for name in (one.name, one.front_geom, one.cabinet_geom))

    def shown(self, half: Array, colour: Array) -> tuple[Array, Array]:
        """Return half lengths and colours (N, boxes, 3) of :attr:`boxes`."""
        drawer = self._drawers()[0]
        fixed = np.array([drawer.front_box[1], drawer.cabinet_box[1]])
        parts = [
            np.concatenate([tab[:, None], np.tile(fixed, (len(tab), 1, 1))], axis=1) for tab in half.swapaxes(0, 1)
        ]
        return np.concatenate(parts, axis=1), np.repeat(colour, 3, axis=1)

    def vary_objects(
        self, worlds: MujocoSimulator, index: NDArray[np.intp], goal: Array, half: Array, mass: Array, friction: Array
    ) -> None:
        """Set the named drawers, and place their cabinets by the goals."""
        self._set(worlds, index, 0, goal + self.open_m * outward(goal), half, mass, friction)

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
        """Set the other drawers, and place their cabinets."""
        self._set(worlds, index, number + 1, place, half, mass, friction)

    def place_objects(self, worlds: MujocoSimulator, index: NDArray[np.intp], trials: ArmTrials) -> None:
        """No-op: all drawers start closed."""

    def object_obstacle(self, trials: ArmTrials, number: int) -> Obstacle:
        """Return the named drawer's tab, which slides."""
        return self._obstacles(trials, number)[0]

    def fixture_obstacles(self, trials: ArmTrials, number: int) -> tuple[Obstacle, ...]:
        """Return that drawer's front, its cabinet, and the other drawer."""
        return self._obstacles(trials, number)[1:]

    def expert(self) -> GraspExpert:
        """Return the scripted expert."""
        return GraspExpert(on_table=False)

    def _drawers(self) -> list[Drawer]:
        from rlstack.sim.arms.drawer import Drawer

        names = (OBJECT, beside(0))
        return [
            Drawer(name=n, cabinet=f"cabinet_{k}", tab_half_m=TAB, tab_height_m=HEIGHT) for k, n in enumerate(names)
        ]

    def _set(
        self,
        worlds: MujocoSimulator,
        index: NDArray[np.intp],
        number: int,
        closed: Array,
        half: Array,
        mass: Array,
        friction: Array,
    ) -> None:
        drawer = self._drawers()[number]
        worlds.vary(index, drawer.name, half, mass, friction)
        worlds.brake(index, drawer.name, RAIL * GRAVITY * mass)
        stand = closed * np.array([1.0, 1.0, 0.0])
        worlds.move(index, drawer.cabinet, stand, np.arctan2(closed[:, 1], closed[:, 0]))

    def _obstacles(self, trials: ArmTrials, number: int) -> tuple[Obstacle, ...]:
        from rlstack.sim.arms.drawer import drawer_obstacles

        assert isinstance(trials, TableTrials)
        mass, friction = float(trials.mass[number]), float(trials.friction[number])
        first, other = self._drawers()
        return tuple(
            part
            for k, (drawer, place, yaw, half) in enumerate(
                (
                    (first, trials.position[number], trials.yaw[number], trials.half[number]),
                    (
                        other,
                        trials.beside_position[number, 0],
                        trials.beside_yaw[number, 0],
                        trials.beside_half[number, 0],
                    ),
                )
            )
            for part in drawer_obstacles(
                drawer,
                place.tolist(),
                float(yaw),
                half.tolist(),
                mass,
                friction,
                RAIL * GRAVITY * mass,
                tuple(trials.colour[number, k].tolist()),
            )
        )


TASK = TableDrawerTask
