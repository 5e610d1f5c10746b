"""Describe a world: a table for the terminal, and a map from above."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlstack.errors import UserError
from rlstack.sim.maps.floor_map import FloorMap
from rlstack.sim.obstacle import Obstacle
from rlstack.sim.world import World
from rlstack.text_table import aligned
from rlstack.verification.drawing import COLOURS, FAINT, STYLE, literal, matplotlib_or_refuse, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

_WIDTH_IN, _MARGIN_IN, _TALLEST = 8.0, 1.0, 2.0
_HATCH = {"hatch.linewidth": 0.6, "hatch.color": "#6b6152"}
_ORDINARY_HEIGHT_M = 1.8
"""Default height above which an obstacle is overhead, if the world's start places do not specify a body height."""


def describe_world(world: World) -> str:
    """Describe a world as plain text: size, obstacles, start places, wind and physics."""
    parts = [f"world {world.title}", _pairs(_facts(world))]
    if world.obstacles:
        parts.append(
            "obstacles, m\n" + _table(("what", "count", "shape", "x", "y", "height", "at height"), _kinds(world))
        )
    return "\n\n".join(parts) + "\n"


def draw_world(world: World, *, dpi: int = 140) -> bytes:
    """Return a map of a world from above as PNG: x to the right, y up, in m.

    Obstacles above a robot on the floor are hatched; numbered dots are the start places, in order.

    Raises:
        UserError: matplotlib is not installed, or the world is a MuJoCo model, whose shapes only MuJoCo knows.
    """
    matplotlib = matplotlib_or_refuse()
    _refuse_unknown(world)
    (x0, y0, _), (x1, y1, _) = world.bounds_m
    wide = _WIDTH_IN - _MARGIN_IN
    tall = min(wide * (y1 - y0) / (x1 - x0), _TALLEST * wide)
    with matplotlib.rc_context({**STYLE, **_HATCH}):
        figure = new_figure(_WIDTH_IN, tall + _MARGIN_IN)
        axes = figure.add_subplot()
        _draw(axes, world)
        axes.set(xlabel="x (m)", ylabel="y (m)")
        floor = "" if world.floor else ", no floor"
        axes.set_title(f"{literal(world.title)}: {_count(len(world.obstacles), 'obstacle')}{floor}")
        figure.legend(
            handles=_legend(world), loc="outside lower center", ncols=4, handlelength=1.4, columnspacing=1.6, fontsize=9
        )
        return _png(figure, dpi)


def _refuse_unknown(world: World) -> None:
    if world.mjcf is not None:
        raise UserError(f"Only MuJoCo can display {world.mjcf}: open it in MuJoCo's viewer.")


def _draw(axes: Axes, world: World) -> None:
    (x0, y0, _), (x1, y1, _) = world.bounds_m
    margin = 0.02 * max(x1 - x0, y1 - y0)
    axes.set(xlim=(x0 - margin, x1 + margin), ylim=(y0 - margin, y1 + margin), aspect="equal")
    axes.grid(True, linewidth=0.6)
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=FAINT, linewidth=1.0, linestyle="--"))
    head = _head_height(world)
    # Seen from above, except that overhead obstacles must not hide those below.
    for obstacle in sorted(world.obstacles, key=lambda o: (o.lowest_m >= head, o.highest_m)):
        axes.add_patch(_outline(obstacle, overhead=obstacle.lowest_m >= head))
    xs, ys = [s[0] for s in world.starts_m], [s[1] for s in world.starts_m]
    axes.plot(xs, ys, "o", color=COLOURS[0], markersize=9, markeredgewidth=0, zorder=6)
    if world.floor_map is not None:
        _draw_way(axes, world.floor_map)
    for index, (x, y, _) in enumerate(world.starts_m):
        axes.annotate(str(index), (x, y), color="white", fontsize=6.5, ha="center", va="center_baseline", zorder=7)


def _draw_way(axes: Axes, drawn: FloorMap) -> None:
    """Draw a map's goal, and the headings there and at the start."""
    axes.plot(*drawn.goal[:2], "*", color=COLOURS[2], markersize=13, markeredgewidth=0, zorder=6)
    for (x, y, yaw), colour in ((drawn.start, COLOURS[0]), (drawn.goal, COLOURS[2])):
        length = 0.045 * max(drawn.size_m)
        tip = (x + length * math.cos(yaw), y + length * math.sin(yaw))
        axes.annotate("", tip, (x, y), arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2}, zorder=6)


def _outline(obstacle: Obstacle, *, overhead: bool) -> Patch:
    from matplotlib.patches import Circle, Rectangle

    x, y, _ = obstacle.position_m
    dark = tuple(0.62 * c for c in obstacle.colour)
    style: dict[str, Any] = {"edgecolor": dark, "linewidth": 0.7, "zorder": 3}
    if overhead:
        style.update(facecolor="none", hatch="////", linewidth=0.5, zorder=4)
    else:
        style.update(facecolor=obstacle.colour)
    if obstacle.shape != "box":
        return Circle((x, y), obstacle.size_m[0] / 2.0, **style)
    length, width, _ = obstacle.size_m
    corner = (x - length / 2.0, y - width / 2.0)
    return Rectangle(corner, length, width, angle=math.degrees(obstacle.yaw_rad), rotation_point="center", **style)


def _legend(world: World) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], marker="o", color=COLOURS[0], linestyle="none", markersize=7, label="start places in order"),
    ]
    if world.floor_map is not None:
        mark = Line2D([], [], marker="*", color=COLOURS[2], linestyle="none", markersize=9, label="goal")
        handles.append(mark)
    head = _head_height(world)
    if any(o.lowest_m < head for o in world.obstacles):
        handles.append(Patch(facecolor="#d8cfc0", edgecolor="#86795f", label=f"reaches below {head:g} m"))
    if any(o.lowest_m >= head for o in world.obstacles):
        handles.append(Patch(facecolor="none", edgecolor="#86795f", hatch="////", label="all above that"))
    return handles


def _png(figure: Any, dpi: int) -> bytes:
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=dpi, metadata={"Software": None})  # the same world gives the same bytes
    return png.getvalue()


def _head_height(world: World) -> float:
    return world.starts.body_height_m if world.starts else _ORDINARY_HEIGHT_M


def _facts(world: World) -> dict[str, str]:
    if world.mjcf is not None:
        return {"model": f"{world.mjcf}, for MuJoCo alone", "starts": "the origin and places 1 m apart, unchecked"}
    low, high = world.bounds_m
    extents = " x ".join(f"{b - a:g}" for a, b in zip(low, high))
    corners = " to ".join(f"({', '.join(f'{c:g}' for c in corner)})" for corner in (low, high))
    facts = {"size": f"{extents} m, {corners}", "floor": "at z = 0" if world.floor else "none"}
    first = "the first at the origin" if world.floor_map is None else "the first the map's own"
    facts["starts"] = f"{len(world.starts_m)}, {first}"
    if (drawn := world.floor_map) is not None:
        x, y, yaw = drawn.goal
        facts["goal"] = (
            f"({x:.2f}, {y:.2f}) m, {math.degrees(yaw):.0f} degrees; the shortest way is {drawn.shortest_m:.1f} m"
        )
        facts["difficulty"] = f"{drawn.difficulty:g}, for a robot of radius {drawn.radius_m:g} m"
    if (rules := world.starts) is not None:
        facts["starts"] += (
            f"; at least {rules.clearance_m:g} m from obstacles and {rules.spacing_m:g} m apart;\n"
            f"a body of radius {rules.body_radius_m:g} m and {rules.body_height_m:g} m high can go from each to each"
        )
    if world.wind is None:
        facts["wind"] = "none"
    else:
        velocity = ", ".join(f"{v:g}" for v in world.wind.velocity_m_s)
        facts["wind"] = f"({velocity}) m/s, turbulence: {world.wind.turbulence}"
    switched = [f"{name} {'on' if on else 'off'}" for name, on in sorted(world.physics.items())]
    facts["physics"] = ", ".join(switched) or "as the robot's file says"
    return facts


def _kinds(world: World) -> list[tuple[str, ...]]:
    """Return a row for each kind of obstacle, grouping names that differ only in numbers."""
    kinds: dict[tuple[str, str, str], list[Obstacle]] = {}
    for obstacle in world.obstacles:
        name = " ".join(re.sub(r"_?\d+", "", obstacle.name).split("_")) or obstacle.name
        kinds.setdefault((name, obstacle.shape, _moves(obstacle)), []).append(obstacle)
    rows = []
    for (name, shape, moves), group in sorted(kinds.items()):
        sizes = [_range([o.size_m[axis] for o in group]) for axis in range(3)]
        if shape != "box":
            sizes[1] = ""  # its x is the diameter
        lowest = _range([o.lowest_m for o in group])
        rows.append((name + moves, str(len(group)), shape, *sizes, lowest))
    return rows


def _moves(obstacle: Obstacle) -> str:
    if obstacle.slide is not None:
        return f", slides {obstacle.slide.travel_m:g} m"
    if obstacle.part_of:
        return f", part of {obstacle.part_of}"
    return ", can move" if obstacle.can_move else ""


def _range(numbers: Sequence[float]) -> str:
    low, high = (f"{round(n, 2) + 0.0:g}" for n in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _pairs(pairs: dict[str, str]) -> str:
    width = max(map(len, pairs))
    return "\n".join(
        f"  {key:<{width}}  " + text.replace("\n", "\n" + " " * (width + 4)) for key, text in pairs.items()
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"  {line}" for line in aligned([[*head], *([*row] for row in rows)]))
