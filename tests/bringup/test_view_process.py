from __future__ import annotations

import pytest

from rlstack.bringup.system import simulate_system


def test_a_simulation_shows_its_own_robots() -> None:
    pytest.importorskip("viser")
    system = simulate_system("turtlebot3_burger", "mujoco", count=2, view=True)
    (view,) = (process for process in system.processes if process.name == "view")
    assert view.parameters["robots"] == ("/turtlebot3_burger1", "/turtlebot3_burger2")
    assert view.when_it_ends == "let the rest go on"
