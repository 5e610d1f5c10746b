"""Crossing corridors, some of them closed or dead ends, with objects along their walls."""

from __future__ import annotations

from rlstack.sim.maps.generators import MapGenerator
from rlstack.sim.maps.map_builder import MapBuilder, Piece

Segment = tuple[bool, int, int]
"""A corridor segment: whether it runs along y, the corridor's index, the index of the row or column of blocks."""


def draw(plan: MapBuilder) -> None:
    """Cut corridors along x and y through solid blocks, close some segments, and narrow others with poles."""
    dice, scale = plan.dice, plan.scale
    counts = plan.count(2.0, 3.0), plan.count(2.0, 3.0)
    width = max(1.15 * plan.gap_m, plan.between(1.25, 0.6) * scale)
    x0, y0, x1, y1 = plan.inside
    columns, rows = (_cuts(plan, span, n, width) for span, n in (((x0, x1), counts[0]), ((y0, y1), counts[1])))
    filled, doors = _closed(plan, *counts)
    for column, row, wide, tall in _blocks(counts, filled):
        plan.wall(columns[column][0], rows[row][0], columns[column + wide][1], rows[row + tall][1])
    open_: list[Segment] = []
    for upright in (True, False):
        for number in range(counts[0] if upright else counts[1]):
            for place in range((counts[1] if upright else counts[0]) + 1):
                if (upright, number, place) not in filled:
                    open_.append((upright, number, place))
    for segment in doors:
        if plan.boxes_left:
            (low, high), (begin, end) = _extent(segment, columns, rows)
            at = begin + (end - begin) * dice.between(0.25, 0.75)
            near, far = at - plan.wall_m / 2.0, at + plan.wall_m / 2.0
            plan.wall(*((low, near, high, far) if segment[0] else (near, low, far, high)))
    most = min(0.3 * scale, (width - plan.gap_m) / 2.0)
    for _ in range(plan.count(1.0, 8.0) if most > 0.04 * scale else 0):
        radius = most * dice.between(0.4, 1.0)
        segment = open_[dice.below(len(open_))]
        (low, high), (begin, end) = _extent(segment, columns, rows)
        along, sides = dice.between(begin, end), [low + radius, high - radius]
        spots = [(side, along, 0.0) if segment[0] else (along, side, 0.0) for side in sides]
        if dice.chance(0.5):
            spots.reverse()
        plan.place(Piece(circles=((0.0, 0.0, radius),)), spots=spots)


def _cuts(plan: MapBuilder, span: tuple[float, float], corridors: int, width: float) -> list[tuple[float, float]]:
    """Return begin and end of the blocks between corridors, m."""
    shares = [plan.dice.between(0.5, 1.5) for _ in range(corridors + 1)]
    solid = (span[1] - span[0] - corridors * width) / sum(shares)
    found, at = [], span[0]
    for share in shares:
        found.append((at, at + solid * share))
        at += solid * share + width
    return found


def _extent(
    segment: Segment, columns: list[tuple[float, float]], rows: list[tuple[float, float]]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the walls beside a segment and its begin and end, m."""
    upright, number, place = segment
    walls, along = (columns, rows) if upright else (rows, columns)
    return (walls[number][1], walls[number + 1][0]), along[place]


def _closed(plan: MapBuilder, columns: int, rows: int) -> tuple[set[Segment], list[Segment]]:
    """Return the solid segments and those with a closed door; all crossings stay connected."""
    dice = plan.dice
    ends: list[Segment] = [(True, i, j) for i in range(columns) for j in (0, rows)]
    ends += [(False, j, i) for j in range(rows) for i in (0, columns)]
    inner: list[Segment] = [(True, i, j) for i in range(columns) for j in range(1, rows)]
    inner += [(False, j, i) for j in range(rows) for i in range(1, columns)]
    filled = {segment for segment in ends if dice.chance(0.6)}
    doors = []
    left = set(inner)
    for segment in sorted(inner, key=lambda _: dice.between(0.0, 1.0)):
        if dice.chance(plan.between(0.25, 0.9)) and _connected(left - {segment}, columns, rows):
            left.remove(segment)
            if dice.chance(0.6):
                filled.add(segment)
            else:
                doors.append(segment)
    return filled, doors


def _connected(open_: set[Segment], columns: int, rows: int) -> bool:
    reached, ahead = {(0, 0)}, [(0, 0)]
    while ahead:
        i, j = ahead.pop()
        ways = [((True, i, j + 1), (i, j + 1)), ((True, i, j), (i, j - 1))]
        ways += [((False, j, i + 1), (i + 1, j)), ((False, j, i), (i - 1, j))]
        for segment, crossing in ways:
            if segment in open_ and crossing not in reached:
                reached.add(crossing)
                ahead.append(crossing)
    return len(reached) == columns * rows


def _blocks(counts: tuple[int, int], filled: set[Segment]) -> list[tuple[int, int, int, int]]:
    """Return column, row and additional columns and rows of blocks; a filled segment joins two blocks."""
    columns, rows = counts
    taken: set[tuple[int, int]] = set()
    found, joined = [], set()
    for row in range(rows + 1):
        for column in range(columns + 1):
            if (column, row) in taken:
                continue
            wide = tall = 0
            while column + wide < columns and (True, column + wide, row) in filled:
                if (column + wide + 1, row) in taken:
                    break
                joined.add((True, column + wide, row))
                wide += 1
            while not wide and row + tall < rows and (False, row + tall, column) in filled:
                joined.add((False, row + tall, column))
                tall += 1
            taken |= {(column + i, row + j) for i in range(wide + 1) for j in range(tall + 1)}
            found.append((column, row, wide, tall))
    return found


GENERATOR = MapGenerator(draw, prefer="detour")
