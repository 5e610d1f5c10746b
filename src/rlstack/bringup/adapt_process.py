"""The adaptation node beside the policy of a deployment."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path

from rlstack.bringup.node_process import Process, System
from rlstack.errors import UserError
from rlstack.files import check_folder
from rlstack.libraries import import_library
from rlstack.policies import load_policy
from rlstack.robots import RobotSpec
from rlstack.training.adaptation_check import adaptable

_FOLDER = "adaptations"


def with_adaptation(system: System, robot: RobotSpec) -> System:
    """Return a deployment whose policy is adapted in flight to what its robot is.

    Args:
        system: The deployment of :func:`rlstack.bringup.system.deploy_system`.
        robot: The robot.

    Raises:
        UserError: The kind of robot or the policy cannot be adapted, there are several robots, or what it needs to
            learn and record is not installed.
    """
    policies = [one for one in system.processes if one.node_name == "policy"]
    if len(policies) != 1:
        why = "several robots are not adapted to on one computer" if policies else "there is none"
        raise UserError(f"adapt is for one robot with a policy file, and {why}: leave it out.")
    flown = policies[0]
    adaptable(load_policy(str(flown.parameters["policy"]), robot=robot), robot)
    for module in ("torch", "llvmlite", "tensorboard"):
        if find_spec(module) is None:
            raise UserError(f"adapt needs {module}, which is not installed: pip install 'rlstack[train,sim]'.")
    import_library("mcap.writer", "record")
    now = datetime.now(timezone.utc)
    folder = Path(_FOLDER, f"{now:%Y-%m-%d_%H-%M-%S}").absolute()
    check_folder(folder, "adapt")
    names = ("robot", "robot_sha256", "policy", "policy_sha256")
    adapt = Process(
        name="adapt",
        module="rlstack.nodes.adapt",
        namespace=flown.namespace,
        parameters={**{name: flown.parameters[name] for name in names}, "out": str(folder)},
        remappings=flown.remappings,
        when_it_ends="let the rest go on",
        why="the policy is no longer adapted",
    )
    return replace(system, processes=(*system.processes, adapt))
