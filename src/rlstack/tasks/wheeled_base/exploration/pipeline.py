"""Observation pipeline of exploration: the known map around the robot, and the paths to unknown ground."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from rlstack.sim.grids.simulator import MOVES
from rlstack.tasks.core.pipeline import Pipeline, Tensors, Term

_POOL = 3
"""Side of a block of the far view, cells."""


class LocalMap(Term):
    """Unknown and occupied cells near the robot.

    Args:
        reach: Cells on each side of the robot's.
    """

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach, self.name, self.unit = reach, "near", "0 or 1"
        self.size = 2 * (2 * reach + 1) ** 2
        self.meaning = f"unknown, then occupied or outside the map, in {2 * reach + 1} rows of cells around the robot"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return the columns (batch, size)."""
        window = inputs["window"]
        cut = window.shape[-1] // 2 - self.reach
        side = 2 * self.reach + 1
        return window[:, :, cut : cut + side, cut : cut + side].flatten(1)


class CoarseMap(Term):
    """Unknown and occupied cells of the whole window, in blocks of three by three.

    Args:
        sight: Cells of the window on each side of the robot's.
    """

    def __init__(self, sight: int) -> None:
        super().__init__()
        self.blocks = -(-(2 * sight + 1) // _POOL)
        self.name, self.unit, self.size = "far", "cells of 3", 2 * self.blocks**2
        self.meaning = "a third of how many cells of a block are unknown, then of how many are occupied or outside"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return the columns (batch, size)."""
        missing = self.blocks * _POOL - inputs["window"].shape[-1]
        return (F.avg_pool2d(F.pad(inputs["window"], (0, missing, 0, missing)), _POOL) * _POOL).flatten(1)


class UnknownNearness(Term):
    """Path distance to unknown ground after each move, as nearness, and the best moves."""

    name, size, unit = "way", 2 * len(MOVES), "-"
    meaning = "nearness of unknown ground after each move, 1 at its edge; then whether a move is the best there"

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return the columns (batch, size)."""
        way = inputs["way"]
        best = (way > 0.0) & (way >= way.max(dim=-1, keepdim=True).values)
        return torch.cat([way, best.to(way.dtype)], dim=-1)


class BlockedMoves(Term):
    """Moves that do not lead to a known free cell."""

    name, size, unit = "blocked", len(MOVES), "0 or 1"
    meaning = "whether the next cell along x, against x, along y, against y is not known to be free"
    masks_actions = True
    """Marks the term as an action mask: 1 masks the action."""

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return the columns (batch, size)."""
        return inputs["blocked"]


class ExplorationPipeline(Pipeline):
    """Maps the map to scores of the four moves, and these to the centre of the next cell.

    Cells are the map's. Nearness of the unknown reaches ``way_cells`` moves over known free cells. A policy without
    memory may oscillate for ever; so after ``patience`` steps without a new cell, the robot follows the path to the
    nearest unknown ground until one is seen, as it does when more than the share ``last`` is known.

    Args:
        near: Cells on each side that are observed individually.
        sight: Cells on each side of the whole observed window.
        way_cells: Longest resolved path to the unknown, moves.
        patience: Steps without a new cell.
        last: Share of known cells.
        minimum: (3,) m: least waypoint.
        maximum: (3,) m: greatest waypoint.
    """

    def __init__(
        self,
        near: int,
        sight: int,
        way_cells: int,
        patience: int,
        last: float,
        minimum: Sequence[float],
        maximum: Sequence[float],
    ) -> None:
        terms = [LocalMap(near), CoarseMap(sight), UnknownNearness(), BlockedMoves()]
        super().__init__(terms, "waypoint", minimum, maximum)
        self.sight, self.way_cells, self.patience, self.last = sight, way_cells, patience, last
        self.register_buffer("moves", torch.tensor(MOVES, dtype=torch.float32))

    moves: Tensor

    @property
    def action_size(self) -> int:
        """Number of discrete actions; the highest score is executed."""
        return len(MOVES)

    @property
    def memory(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all recurrent state by name."""
        return {"known": (1,), "idle": (1,)}

    def prepare(self, inputs: Tensors, memory: Tensors) -> dict[str, Tensor]:
        """Return the inputs with values derived from the map.

        Returns:
            Beside the inputs: ``size`` (batch, 1) m, a cell's side, never 0; ``cell`` (batch, 2), column and row of the
            robot; ``window`` (batch, 2, side, side), unknown cells, and cells that are occupied or outside, around it;
            ``blocked`` (batch, 4); ``way`` (batch, 4), see :class:`UnknownNearness`; ``known`` (batch, 1) cells, and
            ``share`` (batch, 1) of all; ``idle`` (batch, 1) steps since one was added.
        """
        size = inputs["map_resolution"].clamp(min=1e-3)
        # an extra row and column on each side stand for everything outside
        unknown = F.pad((inputs["map"] < 0.0).float(), (1, 1, 1, 1), value=0.0)
        taken = F.pad((inputs["map"] >= 50.0).float(), (1, 1, 1, 1), value=1.0)
        rows, columns = unknown.shape[1], unknown.shape[2]
        place = torch.floor((inputs["position"] - inputs["map_origin"])[:, :2] / size)
        column, row = _within(place[:, 0], columns - 2), _within(place[:, 1], rows - 2)

        around = torch.arange(-self.sight, self.sight + 1, device=row.device)
        nearby_rows = _within(row[:, None] + around + 1, rows).to(torch.long)
        nearby_columns = _within(column[:, None] + around + 1, columns).to(torch.long)
        strips = torch.stack([unknown, taken], dim=1).gather(
            2, nearby_rows[:, None, :, None].expand(-1, 2, -1, columns)
        )
        window = strips.gather(3, nearby_columns[:, None, None, :].expand(-1, 2, len(around), -1))

        free = (unknown + taken) == 0.0
        here = ((row + 1) * columns + column + 1).to(torch.long)
        steps = self.moves.to(torch.long)
        beside = here[:, None] + steps[:, 0] + steps[:, 1] * columns
        open_to = free.float().flatten(1).gather(1, beside)
        way = self._nearness(unknown > 0.0, free).flatten(1).gather(1, beside) * open_to
        cell = torch.stack([column, row], dim=1)
        found = {"size": size, "cell": cell, "window": window, "blocked": 1.0 - open_to, "way": way}
        seen = (inputs["map"] >= 0.0).float()
        known, share = seen.sum(dim=(1, 2))[:, None], seen.mean(dim=(1, 2))[:, None]
        idle = torch.zeros_like(known)
        if memory:  # absent in training
            idle = (memory["idle"] + 1.0) * (known <= memory["known"]).float()
        return {**inputs, **found, "known": known, "share": share, "idle": idle}

    def remember(self, inputs: Tensors, memory: Tensors, action: Tensor) -> dict[str, Tensor]:
        """Return the number of known cells, and of steps since it last grew."""
        return {"known": inputs["known"], "idle": inputs["idle"]}

    def clip(self, action: Tensor) -> Tensor:
        """Return the scores unchanged."""
        return action

    def command(self, action: Tensor, inputs: Tensors) -> Tensor:
        """Return the waypoint (batch, 3) m, odom: the centre of the chosen neighbour cell."""
        way = inputs["way"]
        straight = (inputs["idle"] >= self.patience) | (inputs["share"] > self.last)
        straight = straight & (way.max(dim=-1, keepdim=True).values > 0.0)
        step = self.moves[torch.where(straight, way, action).argmax(dim=-1)]
        place = (inputs["cell"] + step + 0.5) * inputs["size"] + inputs["map_origin"][:, :2]
        waypoint = torch.cat([place, torch.zeros_like(place[:, :1])], dim=-1)
        return torch.minimum(torch.maximum(waypoint, self.minimum), self.maximum)

    def _nearness(self, unknown: Tensor, free: Tensor) -> Tensor:
        """Return each cell's nearness of the unknown (batch, rows, columns): 1 beside it, 0 beyond the longest path.

        Both arguments are boolean; the outermost cells are never free.
        """
        corners = _beside(unknown, 1) | unknown
        reached = free & (_beside(corners, 2) | corners)
        steps = reached.to(torch.uint8)
        for left in range(self.way_cells - 1, 0, -1):
            further = (reached | _beside(reached, 1) | _beside(reached, 2)) & free
            if not torch.onnx.is_in_onnx_export() and torch.equal(further, reached):
                steps = steps + left * reached  # no reachable cells are left: further rounds change nothing
                break
            reached = further
            steps = steps + reached
        return steps.float() / self.way_cells


def _within(index: Tensor, count: int) -> Tensor:
    return index.clamp(min=0).minimum(torch.full_like(index, count - 1))


def _beside(cells: Tensor, axis: int) -> Tensor:
    """Return the cells with one of ``cells`` before or after them along an axis, which wraps around."""
    return cells.roll(1, axis) | cells.roll(-1, axis)
