from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.bringup.deploy import checked_deployment
from rlstack.errors import UserError
from rlstack.policies import find_policy


def test_an_agent_is_beside_each_policy_with_its_file_and_its_fence(tmp_path: Path) -> None:
    places = tmp_path / "places.yaml"
    places.write_text("places: {kitchen: [1, 0]}\n")
    system = checked_deployment("quadrotor_hover", count=2, world="warehouse:7", agent=True, places=str(places))
    found = {process.name: process for process in system.processes}
    for robot in ("crazyflie1", "crazyflie2"):
        policy, agent = found[f"{robot}.policy"], found[f"{robot}.agent"]
        assert agent.namespace == policy.namespace and agent.module == "rlstack.nodes.agent"
        for name in ("policy", "policy_sha256", "robot_sha256", "geofence_min_m", "geofence_max_m"):
            assert agent.parameters[name] == policy.parameters[name]
        assert agent.parameters["robot"] == "crazyflie" and agent.parameters["places"] == str(places)
        assert agent.when_it_ends == "let the rest go on"


def test_a_planners_agent_knows_the_planner() -> None:
    system = checked_deployment(robot="turtlebot3_burger", driver="astar_dwa", agent=True)
    (agent,) = (process for process in system.processes if process.node_name == "agent")
    assert agent.parameters["planner"] == "astar_dwa" and "policy" not in agent.parameters


def test_what_an_agent_cannot_use_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for options, said in (
        ({"agent": True, "places": str(tmp_path / "none.yaml")}, "the places file"),
        ({"agent": True, "model_url": "localhost"}, "give such as http"),
        ({"agent": True, "model_url": "http://localhost:1/v1"}, "needs --model"),
        ({"places": "places.yaml"}, "are the agent's"),
    ):
        with pytest.raises(UserError, match=said):
            checked_deployment(find_policy("quadrotor_hover"), **options)
