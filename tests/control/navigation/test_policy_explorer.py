from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rlstack.control.navigation import PLANNERS
from rlstack.control.navigation.catalog.explorer_policy import (
    PolicyExplorer,
    PolicyExplorerSettings,
    at_edge,
    cell_of,
    coarse,
)
from rlstack.control.navigation.frontier import Frontier, Known
from rlstack.control.navigation.grid_frontier import GridFrontier, GridFrontierSettings
from rlstack.control.navigation.occupancy import Field
from rlstack.errors import UserError
from rlstack.robots import load_robot
from tests.support.bases import turtlebot, write_driving_policy, write_exploring_policy

AREA = PolicyExplorerSettings(cell_m=0.5, area_min_m=(-1.0, -1.0), area_max_m=(1.0, 1.5))


def test_cells_are_counted_from_the_area_s_corner() -> None:
    assert cell_of(np.array([-0.9, 1.4]), AREA, (5, 4)) == (4, 0)
    assert cell_of(np.array([0.1, -0.1]), AREA, (5, 4)) == (1, 2)
    assert cell_of(np.array([9.0, -9.0]), AREA, (5, 4)) == (0, 3)


def test_the_coarse_map_is_of_the_area() -> None:
    # a map of 0.1 m cells from (-1.5, -1) to (0.5, 1): some of the area is beyond it
    occupied, unknown = np.zeros((20, 20), dtype=bool), np.zeros((20, 20), dtype=bool)
    occupied[2, 17] = True  # at (0.25, -0.75): row 0, column 2
    unknown[5:10, 5:8] = True  # 15 of the 25 cells of row 1, column 0
    unknown[10:15, 5:7] = True  # 10 of the 25 of row 2, column 0
    field = Field(occupied[None], unknown[None], np.array([[-1.5, -1.0]]), 0.1)
    seen = coarse(field, AREA, np.array([-0.75, -0.75]))
    expected = np.array(
        [
            [0, 0, 100, -1],
            [-1, 0, 0, -1],
            [0, 0, 0, -1],
            [0, 0, 0, -1],
            [-1, -1, -1, -1],
        ]
    )
    np.testing.assert_array_equal(seen, expected)
    # the robot stands on free ground, whatever its map says
    assert coarse(field, AREA, np.array([0.25, -0.75]))[0, 2] == 0.0


def test_the_edge_of_the_known_is_beside_the_unknown() -> None:
    seen = np.zeros((5, 5))
    seen[4, 4] = -1.0
    assert at_edge(seen, (3, 3)) and not at_edge(seen, (2, 3))


def explorer(ahead: int = 10, **changed: float) -> PolicyExplorer:
    """The grid planner stands in the policy's place: it answers the same signals."""
    frontier = PLANNERS.load("frontier_greedy")(load_robot("turtlebot3_burger"))
    policy = GridFrontier(GridFrontierSettings(choice="greedy"))
    cells = PolicyExplorerSettings(cell_m=0.5, area_min_m=(-2.0, -2.0), area_max_m=(2.0, 2.0), ahead=ahead, **changed)
    return PolicyExplorer(frontier.planner, frontier.settings, policy, cells)


def test_it_is_asked_on_to_the_edge_of_the_known() -> None:
    seen = np.zeros((8, 8))
    seen[:, 7] = -1.0
    for ahead, x in ((10, 1.25), (3, -0.25)):
        found = explorer(ahead)._rollout(seen, np.array([-1.75, 0.25]))
        assert found is not None and found.tolist() == pytest.approx([x, 0.25])


def test_where_the_policy_stays_there_is_no_goal() -> None:
    assert explorer()._rollout(np.zeros((8, 8)), np.array([0.25, 0.25])) is None


def test_gain_way_and_the_policy_weigh_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # in cells of 0.1 m: two frontiers in the open, one 5 cells nearer, before two cells that would be seen from each
    blind = np.zeros((40, 40), dtype=bool)
    blind[10, 30], blind[30, 30] = True, True
    known = Known(np.zeros_like(blind), blind, 2.0, 0.1)
    found = [Frontier((10, 29), 10.0, 1), Frontier((30, 29), 15.0, 1)]
    places = np.array([[0.95, -0.95], [0.95, 1.05]])
    for lead, chosen in ((0.0, 0), (0.2, 0), (0.3, 1)):  # it is 2 m nearer to where the policy leads: 20 cells
        one = explorer(lead=lead)
        monkeypatch.setattr(one, "_rollout", lambda seen, position: places[1])
        one.reset()
        assert one._best(0, np.zeros(2), found, places, known) == chosen
    monkeypatch.setattr(one, "_rollout", lambda seen, position: None)  # it stays: the rule decides
    assert one._best(0, np.zeros(2), found, places, known) == 0


def test_a_policy_must_be_named() -> None:
    with pytest.raises(UserError, match="policy"):
        PLANNERS.load("explorer_policy")(load_robot("turtlebot3_burger"))


def test_cells_and_area_are_those_that_the_policy_was_trained_on(tmp_path: Path) -> None:
    policy = write_exploring_policy(tmp_path / "p.onnx", turtlebot(), cell_m=0.25, side_m=8.0)
    build = partial(PLANNERS.load("explorer_policy"), turtlebot(), policy=str(policy))
    made = build()
    assert made._cells == PolicyExplorerSettings(cell_m=0.25, area_min_m=(-4.0, -4.0), area_max_m=(4.0, 4.0))
    with pytest.raises(UserError, match=r"trained on cells of 0\.25 m, and cells\.cell_m is 0\.5 m"):
        build(cells={"cell_m": 0.5})
    with pytest.raises(UserError, match=r"sees cells of 0\.25 m and the map has cells of 0\.4 m"):
        build(grid={"resolution_m": 0.4})
    with pytest.raises(UserError, match=r"must be at least a cell of 0\.25 m above"):
        build(cells={"area_min_m": (0.0, 0.0), "area_max_m": (4.0, 0.1)})


def test_the_map_reaches_over_all_of_the_area(tmp_path: Path) -> None:
    policy = write_exploring_policy(tmp_path / "p.onnx", turtlebot())
    cells = {"area_min_m": (-9.0, -2.0), "area_max_m": (15.0, 2.0)}
    made = PLANNERS.load("explorer_policy")(turtlebot(), policy=str(policy), cells=cells)
    grid = made.global_planner.grids.settings
    assert grid.cells * grid.resolution_m >= 2 * 24.0 and grid.rays == 360


def test_policies_that_drive_themselves_are_refused(tmp_path: Path) -> None:
    policy = write_driving_policy(tmp_path / "p.onnx", turtlebot())
    with pytest.raises(UserError, match=r"\(task test\) gives twist and does not explore"):
        PLANNERS.load("explorer_policy")(turtlebot(), policy=str(policy))
