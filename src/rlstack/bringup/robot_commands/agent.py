"""`rlstack agent`: have a robot do what a sentence says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from rlstack.agent.abilities import Abilities, abilities_of
from rlstack.agent.executive import Executive
from rlstack.agent.grammar import RESERVED
from rlstack.agent.model import ANSWERED_WITHIN_S, KEY_VARIABLE, Model
from rlstack.agent.places import read_places
from rlstack.agent.skills import SKILLS, described_skill
from rlstack.bringup.robot_commands.robot_client import FOUND_WITHIN_S, RobotClient, shown, within
from rlstack.errors import UserError
from rlstack.nodes.agent_link import RobotLink
from rlstack.nodes.kind_topics import kind_topics
from rlstack.policies import find_policy, load_policy
from rlstack.robots import RobotSpec, load_robot

_TICK_S = 0.02
_HELD_WITHIN_S = 1.0


@dataclass(frozen=True)
class Agent:
    """Have a robot do what a sentence says, with the skills of its policy, behind its guard.

    Such as: rlstack agent "take off, fly to 0.5 0 1.2, wait 3 seconds, then come back and land". It prints the plan and
    every step; Ctrl-C has the robot hold its position. Exit status: 0 done, 1 stopped on the way, 2 nothing was done.
    """

    sentence: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="SENTENCE")] = ()
    """What to do; without it, the skills are listed."""
    robot: Annotated[str, tyro.conf.arg(aliases=["--namespace"], metavar="NAME")] = ""
    """The robot's namespace, or its last part; not needed if only one robot is there."""
    policy: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """Its policy, a file or the name of a released one; default: the one that its policy node runs."""
    places: Annotated[str, tyro.conf.arg(metavar="FILE")] = ""
    """A YAML file with named places under the key `places`, such as `kitchen: [2.0, 1.0]`, m in `odom`."""
    model_url: Annotated[str, tyro.conf.arg(metavar="URL")] = ""
    """OpenAI-compatible endpoint of a language model that plans, such as http://localhost:8000/v1; default: the grammar
    plans."""
    model: str = ""
    """The model's name there."""
    model_key: Annotated[str, tyro.conf.arg(metavar="VARIABLE")] = KEY_VARIABLE
    """The environment variable with the endpoint's key."""
    model_timeout: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = ANSWERED_WITHIN_S
    """Time limit for the model's answer, s."""
    only_plan: bool = False
    """Print the plan and check it against the robot's state; nothing moves."""

    def run(self) -> int:
        """Plan, check, run and print."""
        places = read_places(self.places, RESERVED)
        model = Model(self.model_url, self.model, self.model_key, self.model_timeout) if self.model_url else None
        with RobotClient() as client:
            (robot,) = client.choose((self.robot,) if self.robot else ())
            spec, abilities = deployed_abilities(client, robot, places, self.policy)
            if not self.sentence:
                print("\n".join(described_skill(SKILLS[name]) for name in abilities.skills))
                return 0
            link = RobotLink(client.node, abilities, kind_topics(spec).observed, within(robot, ""))
            name = shown(robot)
            executive = Executive(link, abilities, model, lambda said: print(f"{name}: {said}", flush=True))
            if not client.until(lambda: link.ready and link.observed, FOUND_WITHIN_S):
                print(f"{name}: {_unheard(link)}.", file=sys.stderr)
                return 1
            return _follow(client, executive, " ".join(self.sentence), self.only_plan)


def _follow(client: RobotClient, executive: Executive, sentence: str, only_plan: bool) -> int:
    """Run a sentence to its end; return the exit status."""
    try:
        executive.begin(sentence, only_plan)
        while executive.busy:
            executive.tick()
            client.spin(_TICK_S)
    except KeyboardInterrupt:
        held = executive.stop("Ctrl-C; the robot holds its position")
        if held is not None:
            client.until(held.poll, _HELD_WITHIN_S)
        return 130
    assert executive.verdict is not None
    return {"done": 0, "stopped": 1, "refused": 2}[executive.verdict.how]


def _unheard(link: RobotLink) -> str:
    if not link.watch.mode:
        return "its guard does not say its mode (guard/mode)"
    if not link.ready:
        return "nothing says which goal it pursues (goal/active): see whether its policy node runs"
    return "its observations do not arrive"


def deployed_abilities(
    client: RobotClient, robot: str, places: dict[str, tuple[float, ...]], policy: str = ""
) -> tuple[RobotSpec, Abilities]:
    """Return a running robot's file and abilities, by the parameters of its nodes.

    Args:
        client: The node that asks.
        robot: The robot's namespace.
        places: Named places.
        policy: Its policy; empty: by its policy node.

    Raises:
        UserError: Its guard or policy node does not answer, or their files are not on this machine.
    """
    client.until(lambda: _asked(client, robot, "guard"), FOUND_WITHIN_S)
    (file,) = _parameters(client, robot, "guard", ("robot",)) or ("",)
    if not file:
        raise UserError(f"{shown(robot)}: its guard does not say which robot it guards (its parameter 'robot').")
    spec = load_robot(file)
    limits = spec.goal_limits()
    if limits is not None:
        names = [f"{limits.name}_min_m", f"{limits.name}_max_m"]
        low, high = _parameters(client, robot, "guard", names) or ((), ())
        limits = limits.changed(tuple(low), tuple(high))
    contract, planner = None, ""
    if not policy:
        client.until(lambda: _asked(client, robot, "policy") or _asked(client, robot, "planner"), FOUND_WITHIN_S)
        (policy,) = _parameters(client, robot, "policy", ("policy",)) or ("",)
    if policy:
        contract = load_policy(find_policy(policy), robot=spec).contract
    else:
        (planner,) = _parameters(client, robot, "planner", ("planner",)) or ("",)
    if contract is None and not planner:
        raise UserError(
            f"{shown(robot)}: neither its policy node nor a planner says what it runs. Name its policy with --policy."
        )
    return spec, abilities_of(spec, contract, planner, limits, places)


def _asked(client: RobotClient, robot: str, node: str) -> bool:
    """Return whether one of a robot's nodes can be asked for its parameters: the graph may show it after the guard."""
    there = client.node.get_service_names_and_types()
    return any(name == within(robot, f"{node}/get_parameters") for name, _ in there)


def _parameters(client: RobotClient, robot: str, node: str, names: Sequence[str]) -> list[Any]:
    """Return parameters of one of a robot's nodes; empty if it is not there, or has not all of them."""
    from rcl_interfaces.srv import GetParameters
    from rclpy.parameter import parameter_value_to_python

    if not _asked(client, robot, node):
        return []
    answer = client.call(GetParameters, robot, f"{node}/get_parameters", names=list(names))
    values = [] if answer is None else [parameter_value_to_python(value) for value in answer.values]
    return values if len(values) == len(names) else []
