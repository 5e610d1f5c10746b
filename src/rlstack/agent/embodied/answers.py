"""Answers to the benchmark's prompts by what the agent has without a language model: its grammar, and a planner."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from rlstack.agent.abilities import Abilities
from rlstack.agent.embodied.domain import ACTIONS, body, domain_of, problem_of
from rlstack.agent.embodied.prompts import (
    CHARACTER,
    Problem,
    sentence,
    sequencing_problem,
    subgoal_problem,
    wanted_actions,
)
from rlstack.agent.embodied.suite import Module
from rlstack.agent.grammar import plan_by_grammar
from rlstack.agent.skills import GoTo
from rlstack.errors import UserError

Plan = Callable[[str, str], Sequence[Sequence[str]] | None]
"""Returns the steps of a plan of a PDDL domain and problem: names of an action and its objects; None: there is none."""


def answer(module: Module, prompt: str, plan: Plan) -> str:
    """Return the answer to a prompt; empty if there is none.

    Raises:
        UserError: The prompt has another form.
    """
    if module == "goal_interpretation":
        return _goals(prompt)
    if module == "transition_modeling":
        return json.dumps({"output": "\n".join(body(*wanted) for wanted in wanted_actions(prompt))})
    if module == "action_sequencing":
        return _sequence(sequencing_problem(prompt), plan)
    return _subgoals(subgoal_problem(prompt), plan)


def _goals(prompt: str) -> str:
    """Return the symbolic goals of a sentence, if the grammar reads it: to be near the places that it names."""
    said, names = sentence(prompt)
    places = {name.replace("_", " "): (0.0, 0.0) for name in names if name != CHARACTER}
    try:
        steps = plan_by_grammar(said, Abilities(robot=CHARACTER, policy="household", has_goal=True, places=places))
    except UserError:
        return ""
    near = [step.place.replace(" ", "_") for step in steps if isinstance(step, GoTo) and step.place]
    edges = [{"from_name": CHARACTER, "relation": "CLOSE", "to_name": name} for name in near]
    return json.dumps({"node goals": [], "edge goals": edges, "action goals": []})


def _sequence(problem: Problem, plan: Plan) -> str:
    said = []
    for name, keys in _planned(problem, plan):
        words = [word for key in keys for word in key.rpartition(".")[::2]]
        said.append(f'"{ACTIONS[name].said}": {json.dumps(words)}')
    return "{" + ", ".join(said) + "}" if said else ""


def _subgoals(problem: Problem, plan: Plan) -> str:
    character = next((key for key in problem.objects if key.rpartition(".")[0] == CHARACTER), CHARACTER)
    must, said, used = {name for some in problem.actions for name in some}, [], []
    for name, keys in _planned(problem, plan):
        action = ACTIONS[name]
        if action.subgoal:
            said.append(action.subgoal.format(character, *keys))
            used += [action.said] if action.said in must else []
    if not said:
        return ""
    return json.dumps({"necessity_to_use_action": "yes" if used else "no", "actions_to_include": used, "output": said})


def _planned(problem: Problem, plan: Plan) -> list[tuple[str, list[str]]]:
    """Return actions of a plan with their objects' keys."""
    keys = {f"o{number}": key for number, key in enumerate(problem.objects)}
    steps = plan(domain_of(problem), problem_of(problem, {key: name for name, key in keys.items()}))
    found = []
    for name, *objects in steps or ():
        named = [keys[one] for one in objects]
        found.append((name.partition("__")[0], [key for key in named if key.rpartition(".")[0] != CHARACTER]))
    return found
