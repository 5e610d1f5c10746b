"""The agent node beside each policy or planner of a deployment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlstack.agent.grammar import RESERVED
from rlstack.agent.model import Model
from rlstack.agent.places import read_places
from rlstack.bringup.node_process import Process, System
from rlstack.errors import UserError
from rlstack.nodes.goal_subscriptions import GOAL_PARAMETERS

_PINNED = ("robot_sha256", "policy", "policy_sha256", "planner")


def with_agent(system: System, robot: str, places: str = "", model_url: str = "", model: str = "") -> System:
    """Return a deployment in which an agent takes sentences for each robot, on ``agent/sentence``.

    Args:
        system: The deployment of :func:`rlstack.bringup.system.deploy_system`.
        robot: The robot's name or file.
        places: File of named places; empty: none.
        model_url: Endpoint of a language model that plans; empty: the grammar plans.
        model: The model's name there.

    Raises:
        UserError: The places or the model's address are not allowed, or no policy or planner is deployed.
    """
    read_places(places, RESERVED)
    if model_url:
        Model(model_url, model)
    names = (*_PINNED, *(parameter.name for parameter in GOAL_PARAMETERS))
    agents = [
        Process(
            name=process.name.removesuffix(process.node_name) + "agent",
            node="agent",
            module="rlstack.nodes.agent",
            namespace=process.namespace,
            parameters={
                "robot": robot,
                **{name: process.parameters[name] for name in names if name in process.parameters},
                "places": str(Path(places).absolute()) if places else "",
                "model_url": model_url,
                "model": model,
            },
            remappings=process.remappings,
            when_it_ends="let the rest go on",
            why="sentences are no longer taken",
        )
        for process in system.processes
        if process.node_name in ("policy", "planner")
    ]
    if not agents:
        raise UserError("agent needs a policy or a planner of rlstack, whose skills it plans with: leave it out.")
    return replace(system, processes=(*system.processes, *agents))
