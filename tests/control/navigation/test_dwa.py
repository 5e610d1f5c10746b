from __future__ import annotations

import numpy as np
import pytest

from rlstack.control.navigation.base_model import BaseModel
from rlstack.control.navigation.dwa import DwaSettings, DynamicWindow, ScanDistance
from rlstack.control.navigation.planner_interface import People
from rlstack.robots import load_robot
from tests.control.navigation.floor import burger

BODY = BaseModel.of(burger())
PERIOD_S = 0.1


def chosen(
    window: DynamicWindow,
    target: tuple[float, float],
    points: list[tuple[float, float]] = [],  # noqa: B006
    crowd: People | None = None,
    fastest: float = 10.0,
    backing: bool = False,
) -> tuple[np.ndarray, bool]:
    hits = np.array(points, dtype=float).reshape(1, -1, 2)
    command, good = window.choose(
        np.array([target]),
        hits,
        np.ones(hits.shape[:2], dtype=bool),
        fastest=np.array([fastest]),
        backing=np.array([backing]),
        crowd=crowd,
    )
    return command[0], bool(good[0])


def settled(window: DynamicWindow, *args: object, **options: object) -> tuple[np.ndarray, bool]:
    """Return what is chosen when the same has been asked for some time."""
    for _ in range(15):
        found = chosen(window, *args, **options)  # type: ignore[arg-type]
    return found


def wall(x: float, half: float = 1.0) -> list[tuple[float, float]]:
    return [(x, y) for y in np.linspace(-half, half, 81)]


@pytest.fixture
def window() -> DynamicWindow:
    return DynamicWindow(BODY, DwaSettings(), PERIOD_S)


def test_distances_are_those_to_the_nearest_point() -> None:
    rng = np.random.default_rng(0)
    points, asked = rng.uniform(-1.0, 1.0, (2, 30, 2)), rng.uniform(-1.0, 1.0, (2, 200, 2)).astype(np.float32)
    hit = np.ones((2, 30), dtype=bool)
    hit[1, 5:] = False
    near = ScanDistance(1.2, 0.05)
    near.set(points, hit)
    found = near.distance(np.arange(2), asked[..., 0], asked[..., 1])
    for n, count in ((0, 30), (1, 5)):
        away = np.linalg.norm(asked[n, :, None] - points[n, :count], axis=2).min(axis=1)
        # which point is nearest is known for the middle of a cell
        assert (found[n] >= away - 1e-5).all() and (found[n] <= away + 0.15).all()
    near.set(points, np.zeros((2, 30), dtype=bool))
    assert (near.distance(np.arange(2), asked[..., 0], asked[..., 1]) > 100.0).all()


def test_it_drives_straight_at_full_speed_where_nothing_is_in_the_way(window: DynamicWindow) -> None:
    command, good = settled(window, (2.0, 0.0))
    assert good
    assert command == pytest.approx([BODY.speed_m_s, 0.0], abs=1e-6)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_it_turns_towards_the_target(window: DynamicWindow, side: float) -> None:
    command, _ = settled(window, (0.0, side))
    assert command[1] * side > 0.3


def test_commands_change_no_faster_than_the_base_can(window: DynamicWindow) -> None:
    last = np.zeros(2)
    rng = np.random.default_rng(1)
    most = np.array([BODY.acceleration_m_s2, BODY.angular_acceleration_rad_s2]) * PERIOD_S
    for _ in range(40):
        command, _ = chosen(window, tuple(rng.uniform(-1.0, 1.0, 2)), wall(float(rng.uniform(0.2, 0.6))))
        assert (np.abs(command - last) <= most + 1e-6).all()
        last = command


def test_it_does_not_drive_into_a_wall_and_stops_in_a_corner(window: DynamicWindow) -> None:
    for away in np.linspace(1.0, 0.16, 12):
        command, good = settled(window, (2.0, 0.0), wall(float(away)))
        gap = away - (BODY.discs[0][0] + BODY.radius_m)
        stops = command[0] * PERIOD_S + command[0] ** 2 / (2.0 * BODY.acceleration_m_s2)
        assert not good or stops < gap + 0.01
    box = [(x, y) for x in (-0.17, 0.12) for y in np.linspace(-0.15, 0.15, 31)]
    box += [(x, y) for y in (-0.15, 0.15) for x in np.linspace(-0.17, 0.12, 30)]
    command, _ = settled(window, (2.0, 0.0), box)
    assert command[0] == pytest.approx(0.0, abs=1e-6)


def test_what_is_too_near_already_is_left_not_entered(window: DynamicWindow) -> None:
    side = BODY.radius_m + 0.005  # nearer than the margin
    command, good = settled(window, (2.0, 0.0), [(x, side) for x in np.linspace(-0.3, 0.3, 31)])
    assert good and command[0] > 0.0


def test_backing_drives_backwards(window: DynamicWindow) -> None:
    command, good = settled(window, (-0.3, 0.0), wall(0.12, 0.2), backing=True)
    assert good and command[0] < -0.05


def test_no_faster_than_asked(window: DynamicWindow) -> None:
    command, _ = settled(window, (2.0, 0.0), fastest=0.06)
    assert 0.0 < command[0] <= 0.06


def test_people_are_avoided_where_they_will_be(window: DynamicWindow) -> None:
    def crossing(velocity: tuple[float, float]) -> People:
        return People(np.array([[[0.45, 0.5]]]), np.array([[velocity]]), np.array([[0.25]]))

    away, _ = settled(window, (2.0, 0.0), crowd=crossing((0.0, 1.0)))
    assert away == pytest.approx([BODY.speed_m_s, 0.0], abs=1e-6), "who leaves is not in the way"
    window.reset()
    towards, _ = settled(window, (2.0, 0.0), crowd=crossing((0.0, -0.3)))
    assert np.abs(towards - away).max() > 0.05, "who comes into the way is"


def test_robots_do_not_know_of_each_other(window: DynamicWindow) -> None:
    rng = np.random.default_rng(2)
    points, target = rng.uniform(-1.0, 1.0, (20, 40, 2)), rng.uniform(-1.0, 1.0, (20, 2))
    points[..., 0] += 0.8
    hit, fastest, backing = np.ones((20, 40), dtype=bool), np.full(20, 1.0), np.arange(20) % 5 == 0
    window.reset(20)
    together = window.choose(target, points, hit, fastest=fastest, backing=backing)[0]
    for n in range(20):
        window.reset()
        one = slice(n, n + 1)
        alone = window.choose(target[one], points[one], hit[one], fastest=fastest[one], backing=backing[one])[0]
        assert (alone[0] == together[n]).all()


@pytest.mark.parametrize("name", ["husky", "racecar"])
def test_other_bases_go_their_way(name: str) -> None:
    body = BaseModel.of(load_robot(name))
    window = DynamicWindow(body, DwaSettings(), PERIOD_S)
    for _ in range(30):
        command, good = chosen(window, (9.0, 4.0))
        assert good
        assert abs(command[1]) <= body.turning_rad_s + 1e-6
    assert command[0] > 0.5 * body.speed_m_s and command[1] > 0.0
    if body.drive == "ackermann":
        assert abs(command[1]) <= abs(command[0]) * body.curvature_per_m + 0.05
