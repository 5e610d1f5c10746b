from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.verification.request import Request


def test_a_worker_process_gets_everything_but_the_policy_and_whom_to_tell() -> None:
    told = {one.name: lambda *_: None for one in fields(Request) if one.name == "report" or one.name.startswith("on_")}
    asked: dict[str, Any] = {
        "policy": None,
        "given": "",
        "sha256": "",
        "task": HoverTask,
        "task_name": "quadrotor_hover",
    }
    robot = load_quadrotor("crazyflie")
    asked |= {"robot": robot, "named": "crazyflie", "robot_option": "", "names": ("batch",), "topics": False}
    request = Request(**asked, **told, loaded=lambda: None, episodes=3, seed=5)
    sent = pickle.loads(pickle.dumps(request.for_another_process()))
    assert sent == Request(**asked, loaded=None, episodes=3, seed=5) and len(told) >= 3
