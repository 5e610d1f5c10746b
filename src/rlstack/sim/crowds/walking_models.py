"""Simulated pedestrians in the batch simulator: ORCA, social force or straight walking.

Each robot has its own people. They are circles (``circles``, five rows each: x, y, radius, velocity x, y), so lidar
rays hit them and robots collide with them. A person walks through waypoints in order. Each person has a setting for
whom to avoid: other people and static obstacles, the robot, or nobody.

One kernel moves one person of every robot; it is compiled once and launched on each person's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rlstack.fused import Kernel, clip, greater, maximum, where
from rlstack.sim.batch_quadrotor.layout import slices
from rlstack.sim.batch_wheeled_base.layout import BOX_ROWS, CIRCLE_ROWS
from rlstack.sim.crowds import orca

Rows = np.ndarray[Any, Any]

WAYPOINTS = 4
"""Number of waypoints of a person, visited in a cycle."""

PERSON = slices(
    {
        "waypoints": 2 * WAYPOINTS,  # m, x and y of each
        "speed": 1,  # m/s, preferred speed
        "avoids": 1,  # 1: avoids other people and static obstacles; 0: nobody
        "sees_robot": 1,  # 1: avoids the robot as well
        "stays": 1,  # 1: stops at the last waypoint; 0: continues with the first
    }
)
"""Rows of a person's settings by name."""

PERSON_WIDTH = PERSON["stays"].stop

_AROUND_M = 0.6
"""Distance at which people start to walk around static obstacles."""

WALK = slices({"leg": 1, "stuck": 1})
"""Rows of a person's progress: index of the next waypoint, s without progress towards it."""

WALK_WIDTH = WALK["stuck"].stop


@dataclass(frozen=True)
class Orca:
    """Parameters of ORCA; the defaults are those of CrowdNav's people (arXiv 1809.08835 and its public source)."""

    horizon_s: float = 5.0
    """Time horizon for other agents."""
    horizon_fixed_s: float = 1.0
    """Time horizon for static obstacles, each a half plane at its nearest point (RVO2 uses the whole outline)."""
    margin_m: float = 0.01
    """Margin added to every radius."""
    neighbours: int = 6
    """Number of nearest people to avoid besides the robot; RVO2's ``maxNeighbors``."""
    fixed: int = 3
    """Number of nearest static obstacles to avoid."""


@dataclass(frozen=True)
class SocialForce:
    """Parameters of the social force of Helbing and Molnar (Physical Review E 51, 1995), with their values."""

    relaxation_s: float = 0.5
    strength_m2_s2: float = 2.1
    range_m: float = 0.3
    wall_strength_m2_s2: float = 10.0
    wall_range_m: float = 0.2
    step_s: float = 2.0
    """Time of the step that others are assumed to take."""
    behind: float = 0.5
    """Factor of the force from people outside of the field of view."""
    cosine_of_view: float = -0.17364818
    """Cosine of half the field of view of 200 degrees."""
    fastest: float = 1.3
    """Greatest speed relative to the preferred one."""
    substeps: int = 2


@dataclass(frozen=True)
class CrowdLayout:
    """Number of people, circles and boxes in the rows.

    Args:
        people: Number of people per robot.
        circles: Number of circles in ``circles``; the last ones are people, the others static.
        boxes: Number of boxes in ``boxes``.
    """

    people: int
    circles: int
    boxes: int

    def person(self, k: int) -> slice:
        """Return the rows of person ``k`` in ``circles``."""
        first = CIRCLE_ROWS * (self.circles - self.people + k)
        return slice(first, first + CIRCLE_ROWS)


class Crowd:
    """Moves all people by one control period.

    Args:
        layout: Layout of the arrays.
        period_s: Control period.
        rule: Walking model and its parameters.
        device: Device of the kernels.
        reach_m: Distance at which a waypoint counts as reached.
        patience_s: Time without progress after which a person skips to the next waypoint.
    """

    def __init__(
        self,
        layout: CrowdLayout,
        period_s: float,
        rule: Orca | SocialForce = Orca(),
        device: str = "cpu",
        reach_m: float = 0.3,
        patience_s: float = 4.0,
    ) -> None:
        self.layout, self.period_s, self.rule, self.device = layout, period_s, rule, device
        self.reach_m, self.patience_s = reach_m, patience_s

    @cached_property
    def kernel(self) -> Kernel:
        """Computes ``next`` (5) and ``next_walk`` of the person ``me``.

        Inputs: ``me`` 5, ``walk``, ``person``, all ``circles``, ``robot`` 5 (x, y, radius, vx, vy) and all ``boxes``.
        """
        rows = {
            "me": CIRCLE_ROWS,
            "walk": WALK_WIDTH,
            "person": PERSON_WIDTH,
            "circles": CIRCLE_ROWS * self.layout.circles,
            "robot": CIRCLE_ROWS,
        }
        if self.layout.boxes:
            rows["boxes"] = BOX_ROWS * self.layout.boxes
        return Kernel(self._step, rows, device=self.device)

    def prepare(self, arrays: Mapping[str, Any]) -> Callable[[], None]:
        """Return a function that advances all people by one period.

        Args:
            arrays: (rows, N) each: ``circles``, ``robot``, ``boxes``, ``walk`` and ``person`` (person after person),
                and the outputs ``next_circles`` and ``next_walk``, which share no memory with the inputs. Only people's
                rows of ``next_circles`` are written.
        """
        launches = []
        for k in range(self.layout.people):
            place, walk = self.layout.person(k), slice(WALK_WIDTH * k, WALK_WIDTH * (k + 1))
            given = {
                "me": arrays["circles"][place],
                "walk": arrays["walk"][walk],
                "person": arrays["person"][PERSON_WIDTH * k : PERSON_WIDTH * (k + 1)],
                "circles": arrays["circles"],
                "robot": arrays["robot"],
                "next": arrays["next_circles"][place],
                "next_walk": arrays["next_walk"][walk],
            }
            if self.layout.boxes:
                given["boxes"] = arrays["boxes"]
            launches.append(self.kernel.prepare(given))

        def step() -> None:
            for launch in launches:
                launch()

        return step

    def _step(
        self, me: Rows, walk: Rows, person: Rows, circles: Rows, robot: Rows, boxes: Rows | None = None
    ) -> dict[str, Rows]:
        x, y, radius, vx, vy = me
        avoids, sees = person[PERSON["avoids"]][0], person[PERSON["sees_robot"]][0]
        speed = person[PERSON["speed"]][0]
        toward = self._waypoint(person, walk[WALK["leg"]][0])
        dx, dy = toward[0] - x, toward[1] - y
        away = np.sqrt(dx * dx + dy * dy + 1e-12)
        # as CrowdNav's people do: slow down over the last metre
        share = speed / maximum(away, speed)
        wanted = dx * share, dy * share
        others = circles.reshape(-1, CIRCLE_ROWS)
        first = self.layout.circles - self.layout.people
        people = [_other(person_, me, avoids) for person_ in others[first:]]
        people.append(_placed(robot, sees))
        fixed = [_beside_circle(me, still) for still in others[:first]]
        fixed += [] if boxes is None else [_beside_box(me, box) for box in boxes.reshape(-1, BOX_ROWS)]
        wanted = _around(wanted, (vx, vy), speed, where(greater(avoids, 0.5), 1.0, 0.0), *_nearest(fixed, 1))
        if isinstance(self.rule, Orca):
            vx, vy = self._orca(self.rule, me, people, fixed, wanted, speed, avoids)
            x, y = x + vx * self.period_s, y + vy * self.period_s
        else:
            x, y, vx, vy = self._forced(self.rule, me, people, fixed, wanted, speed, avoids)
        return {
            "next": np.array([x, y, radius, vx, vy], dtype=object),
            "next_walk": self._walked(walk, person, away, (vx * dx + vy * dy) / away, speed),
        }

    def _waypoint(self, person: Rows, leg: Any) -> list[Any]:
        places = person[PERSON["waypoints"]]
        toward = list(places[:2])
        for k in range(1, WAYPOINTS):
            there = greater(leg, k - 0.5)
            toward = [where(there, new, old) for new, old in zip(places[2 * k : 2 * k + 2], toward)]
        return toward

    def _walked(self, walk: Rows, person: Rows, away: Any, nearing: Any, speed: Any) -> Rows:
        leg, stuck = walk[WALK["leg"]][0], walk[WALK["stuck"]][0]
        slow = greater(0.2 * speed, nearing)
        stuck = where(slow, stuck + self.period_s, maximum(stuck - 0.5 * self.period_s, 0.0))
        on = greater(self.reach_m, away) | greater(stuck, self.patience_s)
        over = greater(leg + 1.5, WAYPOINTS)
        after = where(over, where(greater(person[PERSON["stays"]][0], 0.5), leg, 0.0), leg + 1.0)
        return np.array([where(on, after, leg), where(on, 0.0, stuck)], dtype=object)

    def _orca(
        self, rule: Orca, me: Rows, people: Sequence[Any], fixed: Sequence[Any], wanted: Any, speed: Any, avoids: Any
    ) -> tuple[Any, Any]:
        if len(people) - 1 > rule.neighbours:
            *others, robot = people
            gaps = [((o[0] - me[0]) * (o[0] - me[0]) + (o[1] - me[1]) * (o[1] - me[1]), *o) for o in others]
            people = [*(near[1:] for near in _nearest(gaps, rule.neighbours)), robot]
        padded = [me[0], me[1], me[2] + rule.margin_m, me[3], me[4]]
        moving = [
            orca.beside(padded, (*o[:2], o[2] + rule.margin_m, *o[3:]), rule.horizon_s, self.period_s) for o in people
        ]
        nearest = _nearest(fixed, rule.fixed)
        lines = []
        for gap, nx, ny in nearest:
            gap = gap - rule.margin_m
            # a person already inside leaves within a second
            limit = maximum(where(greater(gap, 0.0), gap / rule.horizon_fixed_s, gap), -0.5 * speed)
            lines.append(orca.before(nx, ny, where(greater(avoids, 0.5), limit, 1e3)))
        return orca.velocity(lines, moving, wanted, speed)

    def _forced(
        self,
        rule: SocialForce,
        me: Rows,
        people: Sequence[Any],
        fixed: Sequence[Any],
        wanted: Any,
        speed: Any,
        avoids: Any,
    ) -> tuple[Any, Any, Any, Any]:
        x, y, radius, vx, vy = me
        h = self.period_s / rule.substeps
        length = np.sqrt(wanted[0] * wanted[0] + wanted[1] * wanted[1] + 1e-12)
        ex, ey = wanted[0] / length, wanted[1] / length
        fx = fy = 0.0
        for ox, oy, _, ovx, ovy in people:
            px, py = _social(rule, x - ox, y - oy, ovx, ovy)
            # full force from people within the field of view
            ahead = -(px * ex + py * ey)
            seen = greater(ahead, rule.cosine_of_view * np.sqrt(px * px + py * py + 1e-12))
            weight = where(seen, 1.0, rule.behind)
            fx, fy = fx + weight * px, fy + weight * py
        for gap, nx, ny in _nearest(fixed, 2):
            push = (
                rule.wall_strength_m2_s2 / rule.wall_range_m * np.exp(-maximum(gap + radius, 0.0) / rule.wall_range_m)
            )
            push = where(greater(avoids, 0.5), push, 0.0)
            fx, fy = fx - push * nx, fy - push * ny
        most = rule.fastest * speed
        for _ in range(rule.substeps):
            vx = vx + h * ((wanted[0] - vx) / rule.relaxation_s + fx)
            vy = vy + h * ((wanted[1] - vy) / rule.relaxation_s + fy)
            vx, vy = orca.shorter(vx, vy, most)
            x, y = x + h * vx, y + h * vy
        return x, y, vx, vy


def _social(rule: SocialForce, rx: Any, ry: Any, vx: Any, vy: Any) -> tuple[Any, Any]:
    """Return the repulsion at (rx, ry) m from another person: the gradient of a potential elliptic along their step."""
    sx, sy = rx - rule.step_s * vx, ry - rule.step_s * vy
    near, far = np.sqrt(rx * rx + ry * ry + 1e-9), np.sqrt(sx * sx + sy * sy + 1e-9)
    step = rule.step_s * rule.step_s * (vx * vx + vy * vy)
    total = near + far
    axis = 0.5 * np.sqrt(maximum(total * total - step, 1e-6))
    strength = rule.strength_m2_s2 / rule.range_m * np.exp(-axis / rule.range_m) * total / (4.0 * axis)
    return strength * (rx / near + sx / far), strength * (ry / near + sy / far)


def _other(other: Rows, me: Rows, avoids: Any) -> list[Any]:
    """Return another person's rows; far away for the person itself and people to ignore."""
    same = greater(1e-10, (other[0] - me[0]) * (other[0] - me[0]) + (other[1] - me[1]) * (other[1] - me[1]))
    away = where(same | greater(0.5, avoids), 1e3, 0.0)
    return [other[0] + away, other[1] + away, *other[2:]]


def _placed(robot: Rows, sees: Any) -> list[Any]:
    away = where(greater(sees, 0.5), 0.0, 1e3)
    return [robot[0] + away, robot[1] + away, *robot[2:]]


def _beside_circle(me: Rows, still: Rows) -> tuple[Any, Any, Any]:
    dx, dy = still[0] - me[0], still[1] - me[1]
    away = np.sqrt(dx * dx + dy * dy + 1e-12)
    return away - still[2] - me[2], dx / away, dy / away


def _beside_box(me: Rows, box: Rows) -> tuple[Any, Any, Any]:
    """Return the gap to a box and the direction to its nearest point; from inside, to its centre."""
    cx, cy, cos, sin, half_x, half_y = box
    rx, ry = me[0] - cx, me[1] - cy
    px, py = cos * rx + sin * ry, cos * ry - sin * rx
    qx, qy = clip(px, -half_x, half_x) - px, clip(py, -half_y, half_y) - py
    square = qx * qx + qy * qy
    inside = greater(1e-10, square)
    qx, qy = where(inside, -px, qx), where(inside, -py, qy)
    length = np.sqrt(qx * qx + qy * qy + 1e-12)
    gap = where(inside, 0.0, length) - me[2]
    return gap, (cos * qx - sin * qy) / length, (sin * qx + cos * qy) / length


def _around(wanted: Any, velocity: Any, speed: Any, much: Any, *nearest: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """Return the preferred velocity, rotated along obstacles in the way, on the side of the present motion."""
    wx, wy = wanted
    for gap, nx, ny in nearest:
        length = np.sqrt(wx * wx + wy * wy + 1e-12)
        into = maximum(nx * wx + ny * wy, 0.0) / length
        share = much * into * clip(1.0 - gap / _AROUND_M, 0.0, 1.0)
        mx, my = wx / length + 2.0 * velocity[0] / speed, wy / length + 2.0 * velocity[1] / speed
        side = where(greater(nx * my - ny * mx, 0.0), 1.0, -1.0) * length
        wx, wy = wx + share * (-side * ny - wx), wy + share * (side * nx - wy)
    return wx, wy


def _nearest(things: Sequence[tuple[Any, ...]], count: int) -> list[Any]:
    """Return the ``count`` things with the smallest gaps, sorted by gap."""
    kept: list[tuple[Any, ...]] = []
    for thing in things:
        for k, old in enumerate(kept):
            first = greater(old[0], thing[0])
            kept[k] = tuple(where(first, a, b) for a, b in zip(thing, old))
            thing = tuple(where(first, b, a) for a, b in zip(thing, old))
        if len(kept) < count:
            kept.append(thing)
    return kept
