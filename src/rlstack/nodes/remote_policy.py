"""The remote policy node: has a policy server compute the actions in place of the policy node, behind the guard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rlstack.errors import UserError
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.policy import PolicyNode
from rlstack.nodes.policy_parameters import WITHOUT_A_FILE
from rlstack.nodes.robot_parameters import checked_robot
from rlstack.policies import Contract
from rlstack.policies.served.policy import ServedPolicy
from rlstack.policies.served.settings import server_settings
from rlstack.robots import RobotSpec

PARAMETERS = (
    Parameter("server", "", "The policy server, such as lerobot://127.0.0.1:8080?pretrained=/home/me/act&type=act."),
    Parameter("robot", "so100", "Name or file of the robot."),
    *WITHOUT_A_FILE,
)


class RemotePolicyNode(PolicyNode):
    """Sends what the robot senses to a policy server, and its actions, in time, to ``policy/...`` like a policy's."""

    NAME: ClassVar[str] = "remote_policy"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(None, overrides, **options)
        self._served: ServedPolicy | None = None

    def configure(self) -> None:
        """Read the robot and subscribe to what the policy takes."""
        if self.parameters["lock_step"]:
            raise UserError(
                "A policy server has a clock of its own, so lock step is not possible with it: leave it out."
            )
        super().configure()
        if self._served is not None:
            self._served.link.start()

    def cleanup(self) -> None:
        """End the connection."""
        super().cleanup()
        served, self._served = self._served, None
        if served is not None:
            served.link.close()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report the steps, and how the server answers."""
        warning, figures = super().status()
        if self._served is None:
            return warning, figures
        link, counts = self._served.link, self._served.link.counts
        figures = {
            **figures,
            "server": link.why_not or "serves",
            "chunks": counts.chunks,
            "late chunks": counts.late,
            "refused chunks": counts.refused,
            "last refused chunk": counts.last_refusal,
            "lost": counts.lost,
            "latency ms": round(counts.latency_ms, 1),
        }
        return link.why_not or warning, figures

    def _load(self) -> tuple[Any, RobotSpec]:
        robot = checked_robot(self.parameters)
        self._served = ServedPolicy(server_settings(self.parameters["server"]), robot)
        return self._served, robot

    def _proof(self) -> Mapping[str, Any]:
        """Return nothing: what another process serves has no verification record."""
        return {}

    def _make_progress_checker(self, contract: Contract) -> None:
        """Return None: the goals of such policies are in their task."""


main = RemotePolicyNode.main

if __name__ == "__main__":
    raise SystemExit(main())
