"""The parameter that pins a node's robot file to the one that was checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstack.nodes.parameters import Parameter, ParameterSet
from rlstack.robots import RobotSpec, load_robot

ROBOT_SHA256 = Parameter(
    "robot_sha256",
    "",
    "Digest that the robot file's content must have, with the model that it names, as in verify.json; empty: any.",
)


def checked_robot(parameters: ParameterSet | Mapping[str, Any]) -> RobotSpec:
    """Return the robot of the parameters ``robot`` and ``robot_sha256``.

    Raises:
        UserError: See :func:`rlstack.robots.load_robot`.
    """
    return load_robot(parameters["robot"], sha256=parameters["robot_sha256"])
