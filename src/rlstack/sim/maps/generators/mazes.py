"""Mazes: few passages, many of them dead ends."""

from __future__ import annotations

from itertools import pairwise

from rlstack.sim.maps.generators import MapGenerator
from rlstack.sim.maps.map_builder import MapBuilder, Piece, Rectangle

Cell = tuple[int, int]
Walls = set[tuple[bool, int, int]]
"""A wall: whether it runs along y; column and row of the cell left of it or below it."""

_DRAWS = 40


def draw(plan: MapBuilder) -> None:
    """Carve a maze into cells, with fewer dead ends in easier maps, and narrow some passages with poles."""
    dice = plan.dice
    side = plan.count(3.6, 6.0)
    for attempt in range(_DRAWS):
        cells = max(side - attempt // 10, 3), max(side - attempt // 5 % 2 - attempt // 10, 3)
        lines = [_lines(plan, low, high, n) for low, high, n in zip(plan.inside[:2], plan.inside[2:], cells)]
        rectangles = _rectangles(_carved(plan, *cells), lines, plan.wall_m, cells)
        if len(rectangles) <= plan.boxes_left:
            break
    for rectangle in rectangles[: plan.boxes_left]:
        plan.wall(*rectangle)
    way = min(b - a for line in lines for a, b in pairwise(line)) - plan.wall_m
    most = min(0.3 * plan.scale, way - plan.gap_m)
    for _ in range(plan.count(0.0, 8.0)):
        i, j = (dice.below(n) for n in cells)
        radius = most * dice.between(0.3, 0.5)
        x, y = (dice.between(line[k], line[k + 1]) for line, k in zip(lines, (i, j)))
        off = plan.wall_m / 2.0 + radius
        spots = [(x, lines[1][j] + off), (x, lines[1][j + 1] - off), (lines[0][i] + off, y), (lines[0][i + 1] - off, y)]
        first = dice.below(4)
        plan.place(Piece(circles=((0.0, 0.0, radius),)), spots=[(*s, 0.0) for s in spots[first:] + spots[:first]])


def _lines(plan: MapBuilder, low: float, high: float, count: int) -> list[float]:
    """Return the centre lines of the walls, outer walls included, m, slightly unevenly spaced."""
    low, high = low - plan.wall_m / 2.0, high + plan.wall_m / 2.0
    pitch = (high - low) / count
    inner = [low + pitch * (k + plan.dice.between(-0.12, 0.12)) for k in range(1, count)]
    return [low, *inner, high]


def _carved(plan: MapBuilder, columns: int, rows: int) -> Walls:
    """Return the inner walls that remain after a random depth-first walk over all cells."""
    dice = plan.dice
    walls: Walls = {(True, i, j) for i in range(columns - 1) for j in range(rows)}
    walls |= {(False, i, j) for i in range(columns) for j in range(rows - 1)}
    at = (dice.below(columns), dice.below(rows))
    been, trail = {at}, [at]
    straight = dice.between(0.0, 0.7)
    last: Cell | None = None
    while trail:
        i, j = trail[-1]
        ways = [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
        ways = [c for c in ways if 0 <= c[0] < columns and 0 <= c[1] < rows and c not in been]
        if not ways:
            trail.pop()
            last = None
            continue
        ahead = (i + last[0], j + last[1]) if last else None
        cell = ahead if ahead in ways and dice.chance(straight) else ways[dice.below(len(ways))]
        walls.discard(_between((i, j), cell))
        last = (cell[0] - i, cell[1] - j)
        been.add(cell)
        trail.append(cell)
    for wall in sorted(walls):  # loops
        if dice.chance(plan.between(0.2, 0.03)):
            walls.discard(wall)
    return walls


def _between(one: Cell, other: Cell) -> tuple[bool, int, int]:
    return one[0] != other[0], min(one[0], other[0]), min(one[1], other[1])


def _rectangles(walls: Walls, lines: list[list[float]], thick: float, cells: tuple[int, int]) -> list[Rectangle]:
    """Return the walls as few long rectangles that touch and never overlap.

    Where walls meet, the continuous one gets the joint; at a corner or crossing, the one along x.
    """
    found: list[Rectangle] = []
    half = thick / 2.0

    def meeting(upright: bool, i: int, j: int) -> int:
        """Return the number of inner walls along y, or x, at a corner of cells."""
        ends = ((True, i - 1, j - 1), (True, i - 1, j)) if upright else ((False, i - 1, j - 1), (False, i, j - 1))
        return sum(end in walls for end in ends)

    for upright in (False, True):
        along = cells[upright]
        places = lines[upright]
        for line in range(1, cells[not upright]):
            middle = lines[not upright][line]
            begin: float | None = None
            for k in range(along + 1):
                present = k < along and (upright, *((line - 1, k) if upright else (k, line - 1))) in walls
                node = (line, k) if upright else (k, line)
                mine, other = meeting(upright, *node), meeting(not upright, *node)
                short = k in (0, along) or (other >= max(mine, 1) if upright else other > mine)
                if begin is not None and (short or not present):
                    end = places[k] + (-half if short else half)
                    across = (middle - half, middle + half)
                    found.append((across[0], begin, across[1], end) if upright else (begin, across[0], end, across[1]))
                    begin = None
                if begin is None and present:
                    begin = places[k] + (half if short else -half)
    return found


GENERATOR = MapGenerator(draw, prefer="far")
