"""The agent node: has its robot do what a sentence says, with the skills that the deployed policy's contract names."""

from __future__ import annotations

from typing import Any, ClassVar

from rlstack.agent.abilities import abilities_of
from rlstack.agent.executive import Executive
from rlstack.agent.grammar import RESERVED
from rlstack.agent.model import ANSWERED_WITHIN_S, KEY_VARIABLE, Model
from rlstack.agent.places import read_places
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.nodes.agent_link import RobotLink
from rlstack.nodes.goal_subscriptions import GOAL_PARAMETERS, goal_limits
from rlstack.nodes.kind_topics import kind_topics
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.robot_parameters import ROBOT_SHA256, checked_robot
from rlstack.nodes.runtime import ManagedNode
from rlstack.policies import load_policy

TICK_S = 0.05
STOPS = ("stop", "estop", "e-stop", "emergency stop", "halt")
"""Sentences that end another one; the others wait until it is done."""

PARAMETERS = (
    Parameter("robot", "crazyflie", "Name of the robot, or the path of its YAML file."),
    ROBOT_SHA256,
    Parameter("policy", "", "The policy file that is deployed; empty: a planner."),
    Parameter("policy_sha256", "", "SHA-256 that the policy file must have, as sha256sum prints it; empty: any."),
    Parameter("planner", "", "Name of the planner that is deployed instead."),
    Parameter("places", "", "A YAML file with named places under the key places; empty: none."),
    Parameter("model_url", "", "OpenAI-compatible endpoint of a language model that plans; empty: the grammar plans."),
    Parameter("model", "", "The model's name there."),
    Parameter("model_key_variable", KEY_VARIABLE, "The environment variable with the endpoint's key."),
    Parameter(
        "model_timeout_s", ANSWERED_WITHIN_S, "Time limit for the model's answer, s.", minimum=0.1, maximum=600.0
    ),
    *GOAL_PARAMETERS,
)


class AgentNode(ManagedNode):
    """Takes sentences on ``agent/sentence``, and says on ``agent/report`` what it does and why it stops."""

    NAME: ClassVar[str] = "agent"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def configure(self) -> None:
        """Read the policy's contract and the places, and create the topics."""
        from std_srvs.srv import Trigger

        robot = checked_robot(self.parameters)
        contract = None
        if self.parameters["policy"]:
            digest = self.parameters["policy_sha256"]
            contract = load_policy(self.parameters["policy"], robot=robot, sha256=digest).contract
        self._abilities = abilities_of(
            robot,
            contract,
            self.parameters["planner"],
            goal_limits(robot, self.parameters),
            read_places(self.parameters["places"], RESERVED),
        )
        url, name = self.parameters["model_url"], self.parameters["model"]
        variable, timeout_s = self.parameters["model_key_variable"], self.parameters["model_timeout_s"]
        model = Model(url, name, variable, timeout_s) if url else None
        kind = topics.type_of(topics.AGENT_REPORT)
        self._reports = self.publisher(kind, topics.AGENT_REPORT, "event")
        self._link = RobotLink(self, self._abilities, kind_topics(robot).observed)
        self._executive = Executive(self._link, self._abilities, model, self._tell)
        self._last = "none yet"
        self.subscriber(topics.type_of(topics.AGENT_SENTENCE), topics.AGENT_SENTENCE, self._on_sentence, "event")
        self.server(Trigger, topics.AGENT_STOP, self._on_stop)

    def activate(self) -> None:
        """Start to take sentences."""
        self.every(TICK_S, self._executive.tick)

    def deactivate(self) -> None:
        """Give up the sentence."""
        self._executive.stop("the agent's node was stopped")

    def cleanup(self) -> None:
        """Leave the robot's topics."""
        link = getattr(self, "_link", None)
        if link is not None:
            link.close()

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report what it does."""
        doing = self._executive.doing or ("it plans" if self._executive.busy else "nothing")
        return "", {"skills": ", ".join(self._abilities.skills), "doing": doing, "last report": self._last}

    def _on_sentence(self, message: Any) -> None:
        if not self.active:
            return
        sentence = message.data
        if sentence.lower().strip(" .!") in STOPS:
            self._executive.stop("asked to stop")
            sentence = "stop" if "halt" in sentence.lower() else sentence
        try:
            if not self._link.ready:
                raise UserError("The robot is not heard: see whether its guard and its policy or planner run.")
            self._executive.begin(sentence)
            self._executive.tick()
        except UserError as error:
            self._tell(str(error))

    def _on_stop(self, request: Any, response: Any) -> Any:
        response.success = self._executive.busy
        response.message = "Stopped." if response.success else "It does nothing."
        self._executive.stop("asked to stop")
        return response

    def _tell(self, sentence: str) -> None:
        self._last = sentence
        self.get_logger().info(sentence)
        self._reports.publish(topics.type_of(topics.AGENT_REPORT)(data=sentence))


main = AgentNode.main

if __name__ == "__main__":
    raise SystemExit(main())
