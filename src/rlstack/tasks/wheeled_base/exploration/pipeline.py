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

_REACH = 32
"""Cells on each side of the robot that a policy file searches for the worthiest frontier."""


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


class FrontierWorth(Term):
    """The frontiers that moves lead to, by a next-best-view planner's rule.

    A frontier cell's worth is the number of unknown cells on eight rays from it, up to the first occupied one, over the
    moves to it (H. Gonzalez-Banos, J.-C. Latombe, IJRR 2002, with fewer rays).
    """

    name, size, unit = "worth", 4 * len(MOVES), "-"
    meaning = (
        "whether a move leads to the worthiest frontier; the worth of the best that it leads to, as a share of that;"
        " this one's nearness; the unknown cells on its eight rays over 40, at most 1"
    )
    favours_actions = True
    """Marks the term as a prior: its first columns are 1 for the moves of the rule."""

    def observe(self, inputs: Tensors, memory: Tensors) -> Tensor:
        """Return the columns (batch, size)."""
        return inputs["worth"]


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
        worth: Whether the term :class:`FrontierWorth` is observed.
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
        worth: bool,
        minimum: Sequence[float],
        maximum: Sequence[float],
    ) -> None:
        terms: list[Term] = [LocalMap(near), CoarseMap(sight), UnknownNearness(), BlockedMoves()]
        if worth:
            terms.insert(3, FrontierWorth())
        super().__init__(terms, "waypoint", minimum, maximum)
        self.sight, self.way_cells, self.patience, self.last = sight, way_cells, patience, last
        self.worth = worth
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

        both = torch.stack([unknown, taken], dim=1)
        window = _around(both, row, column, self.sight)

        free = (unknown + taken) == 0.0
        here = ((row + 1) * columns + column + 1).to(torch.long)
        steps = self.moves.to(torch.long)
        beside = here[:, None] + steps[:, 0] + steps[:, 1] * columns
        open_to = free.float().flatten(1).gather(1, beside)
        way = self._nearness(unknown > 0.0, free).flatten(1).gather(1, beside) * open_to
        cell = torch.stack([column, row], dim=1)
        found = {"size": size, "cell": cell, "window": window, "blocked": 1.0 - open_to, "way": way}
        if self.worth:
            if not torch.onnx.is_in_onnx_export():
                found["worth"] = self._worth(unknown, taken, here, beside)
            else:  # a file's search is as large for any map
                dark, solid = _around(both, row, column, _REACH).unbind(dim=1)
                dark, solid = F.pad(dark, (1, 1, 1, 1)), F.pad(solid, (1, 1, 1, 1), value=1.0)
                side = dark.shape[2]
                middle = torch.zeros_like(here) + (_REACH + 1) * (side + 1)
                found["worth"] = self._worth(dark, solid, middle, middle[:, None] + steps[:, 0] + steps[:, 1] * side)
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

    def _worth(self, unknown: Tensor, taken: Tensor, here: Tensor, beside: Tensor) -> Tensor:
        """Return the columns (batch, size) of :class:`FrontierWorth`.

        Args:
            unknown: (batch, rows, columns) 0 or 1.
            taken: The same, of occupied cells, as the outermost are.
            here: (batch,) the robot's cell, row after row.
            beside: (batch, 4) those beside it.
        """
        away, first = self._ways((unknown + taken) == 0.0, here, beside)
        frontier = _with_beside(unknown > 0.0, corners=True) & (away > 0)
        distance, gain = away.flatten(1).float().clamp(min=1.0), _on_rays(unknown, 1.0 - taken).flatten(1)
        # those from which no ray sees anything come last, the nearest first
        worth = torch.where(first & frontier.flatten(1)[:, None], ((gain + 0.1) / distance)[:, None], 0.0)
        value, place = worth.max(dim=-1)
        best = value.max(dim=-1, keepdim=True).values
        found = (value > 0.0).float()
        nearness = (1.0 - distance.gather(1, place) / self.way_cells).clamp(min=0.0)
        seen = (gain.gather(1, place) / 40.0).clamp(max=1.0)
        shares = value / best.clamp(min=1e-6)
        return torch.cat([(value >= best).float() * found, shares, nearness * found, seen * found], dim=1)

    def _ways(self, free: Tensor, here: Tensor, beside: Tensor) -> tuple[Tensor, Tensor]:
        """Return how many moves lead to each cell, and by which moves the shortest ways begin.

        Returns:
            (batch, rows, columns), 0 where none does and at the robot's cell; (batch, 4, cells) boolean.
        """
        flat = free.flatten(1)
        cells = torch.arange(flat.shape[1], device=free.device)
        passable = (flat & (cells != here[:, None])).reshape(free.shape)
        begun = (cells == beside[:, :, None]).reshape(-1, len(MOVES), *free.shape[1:]) & passable[:, None]
        if torch.onnx.is_in_onnx_export():
            left = _moves_left(begun, passable[:, None], self.way_cells)
            most = left.amax(dim=1, keepdim=True)
            away = (self.way_cells + 1.0 - most[:, 0]) * (most[:, 0] > 0.0)
            return away, ((left == most) & (left > 0.0)).flatten(2)
        # the same several times as fast: moves as bits of one number
        bits = torch.tensor([1, 2, 4, 8], dtype=torch.uint8, device=free.device)[:, None, None]
        first = (begun * bits).sum(dim=1, dtype=torch.uint8)
        open_to, edge = passable * torch.tensor(255, dtype=torch.uint8), first
        away = torch.zeros_like(first)
        for length in range(1, self.way_cells):
            unreached = (first == 0).to(torch.uint8)
            away += unreached
            edge = _with_beside(edge) & (open_to * unreached)
            if length % 8 == 0 and not edge.any():
                break
            first = first | edge
        away = torch.where(first > 0, away + 1, torch.zeros_like(away))
        return away, (first[:, None] & bits).to(torch.bool).flatten(2)

    def _nearness(self, unknown: Tensor, free: Tensor) -> Tensor:
        """Return each cell's nearness of the unknown (batch, rows, columns): 1 beside it, 0 beyond the longest path.

        Both arguments are boolean; the outermost cells are never free.
        """
        reached = free & _with_beside(unknown, corners=True)
        if torch.onnx.is_in_onnx_export():
            return _moves_left(reached[:, None], free[:, None], self.way_cells)[:, 0] / self.way_cells
        steps = reached.to(torch.uint8)
        for left in range(self.way_cells - 1, 0, -1):
            further = _with_beside(reached) & free
            if torch.equal(further, reached):
                steps = steps + left * reached  # no reachable cells are left: further rounds change nothing
                break
            reached = further
            steps = steps + reached
        return steps.float() / self.way_cells


def _around(cells: Tensor, row: Tensor, column: Tensor, reach: int) -> Tensor:
    """Return the cells (batch, channels, side, side) around those (batch,) of a padded map; beyond it, as its edge."""
    rows, columns = cells.shape[2], cells.shape[3]
    around = torch.arange(-reach, reach + 1, device=cells.device)
    nearby_rows = _within(row[:, None] + around + 1, rows).to(torch.long)
    nearby_columns = _within(column[:, None] + around + 1, columns).to(torch.long)
    strips = cells.gather(2, nearby_rows[:, None, :, None].expand(-1, cells.shape[1], -1, columns))
    return strips.gather(3, nearby_columns[:, None, None, :].expand(-1, cells.shape[1], len(around), -1))


def _moves_left(begun: Tensor, passable: Tensor, most: int) -> Tensor:
    """Return ``most`` in cells (batch, channels, rows, columns) of ``begun``, one less after each move, 0 beyond."""
    left, open_to = begun.float() * most, passable.float()
    for _ in range(most - 1):
        beside = F.max_pool2d(left, (3, 1), 1, (1, 0)).maximum(F.max_pool2d(left, (1, 3), 1, (0, 1)))
        left = left.maximum((beside - 1.0) * open_to)
    return left


def _within(index: Tensor, count: int) -> Tensor:
    return index.clamp(min=0).minimum(torch.full_like(index, count - 1))


def _on_rays(unknown: Tensor, clear: Tensor) -> Tensor:
    """Return how many unknown cells (batch, rows, columns) are on eight rays from each, up to the first taken one."""
    if not torch.onnx.is_in_onnx_export():
        across = _on_rays_by_rows(unknown, clear, (0, -1, 1))
        return across + _on_rays_by_rows(unknown.transpose(1, 2), clear.transpose(1, 2), (0,)).transpose(1, 2)
    kernel = torch.eye(9)[[0, 1, 2, 3, 5, 6, 7, 8]].reshape(8, 1, 3, 3)
    seen, passes = torch.zeros_like(unknown)[:, None].repeat(1, 8, 1, 1), clear[:, None]
    for _ in range(_REACH):
        seen = F.conv2d((unknown[:, None] + seen) * passes, kernel, padding=1, groups=8)
    return seen.sum(dim=1)


def _on_rays_by_rows(unknown: Tensor, clear: Tensor, ways: Sequence[int]) -> Tensor:
    """Return unknown cells on rays to rows before and after, each a column on (1), back (-1) or straight (0).

    Row after row, all maps at once, which takes a small part of the time of repeated shifts of whole maps.
    """
    batch, rows, columns = unknown.shape
    dark, passes = (cells.transpose(0, 1).reshape(rows, -1) for cells in (unknown, clear))
    total = torch.zeros_like(dark)
    for order in (range(rows - 1), range(rows - 1, 0, -1)):
        step = order.step
        seen = dark.new_zeros(len(ways), batch * columns + 2)  # with a cell before the first map and after the last
        for row in order:
            behind = (dark[row] + seen[:, 1:-1]) * passes[row]
            for k, way in enumerate(ways):
                seen[k, 1 - way : batch * columns + 1 - way] = behind[k]
            total[row + step] += seen[:, 1:-1].sum(dim=0)
    return total.reshape(rows, batch, columns).transpose(0, 1)


def _with_beside(cells: Tensor, corners: bool = False) -> Tensor:
    """Return cells (batch, rows, columns), bits or boolean, with those beside them, over corners too or not.

    What is on an edge of the grid may also show on the opposite one.
    """
    if torch.onnx.is_in_onnx_export():
        wide = cells | cells.roll(1, 1) | cells.roll(-1, 1)
        sides = wide if corners else cells
        return wide | sides.roll(1, 2) | sides.roll(-1, 2)
    flat, columns = cells.reshape(-1), cells.shape[2]  # row after row, which is several times as fast
    wide = flat.clone()
    wide[columns:] |= flat[:-columns]
    wide[:-columns] |= flat[columns:]
    sides = wide.clone() if corners else flat
    wide[1:] |= sides[:-1]
    wide[:-1] |= sides[1:]
    return wide.reshape(cells.shape)
