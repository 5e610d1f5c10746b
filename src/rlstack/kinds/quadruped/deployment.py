"""How a quadruped is deployed: it goes nowhere, so its goal is where it stands."""

from __future__ import annotations

from rlstack.bringup.deployment import Deployment


class QuadrupedDeployment(Deployment):
    """See :class:`rlstack.bringup.deployment.Deployment`."""

    VERBS = ("walk", "Stood")
    AFTER_POLICY = "the guard stands the robot up and then crouches"


DEPLOYMENT = QuadrupedDeployment
