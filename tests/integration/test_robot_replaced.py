"""No node takes a robot file that was replaced since it was checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlstack.errors import UserError
from rlstack.nodes.guard import GuardNode
from rlstack.nodes.planner import PlannerNode
from rlstack.nodes.policy import PolicyNode
from rlstack.nodes.robot import RobotNode
from rlstack.robots import load_robot
from rlstack.robots.spec import robot_files
from tests.support.policies import write_hover_policy
from tests.support.ros import Listener

pytestmark = pytest.mark.integration


def test_no_node_takes_a_robot_file_that_was_replaced(listener: Listener, tmp_path: Path) -> None:
    path, shipped = tmp_path / "mine.yaml", robot_files()["crazyflie"].read_text()
    path.write_text(shipped)
    checked = {"robot": str(path), "robot_sha256": load_robot(path).sha256}
    policy = write_hover_policy(tmp_path / "policy.onnx", load_robot(path))
    makes: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (RobotNode, {}),
        (GuardNode, {}),
        (PolicyNode, {"policy": str(policy)}),
        (PlannerNode, {}),
    ]
    path.write_text(shipped.replace("control_rate_hz: 100", "control_rate_hz: 50"))
    assert load_robot(path).sha256 != checked["robot_sha256"]
    for make, more in makes:
        node = make(overrides={**checked, **more}, context=listener.context)
        try:
            with pytest.raises(UserError, match=r"mine\.yaml, or the model that it names, was replaced"):
                node.start()
        finally:
            node.destroy_node()
