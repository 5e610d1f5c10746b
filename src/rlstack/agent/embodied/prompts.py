"""What a planner reads in the benchmark's prompts, which are all that it gets: objects, states, goals and actions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from rlstack.errors import UserError

CHARACTER = "character"

Fact = tuple[str, ...]
"""A predicate, such as ON or INSIDE, and the keys of its objects."""

_OBJECT = re.compile(r"^(\S+), id: (\d+), properties: (\[.*\])$", re.MULTILINE)
_NODE = re.compile(r"^(\S+), states: (\[.*?\]), properties", re.MULTILINE)
_EDGE = re.compile(r"^<(\S+)> \((\d+)\) is (\S+) to <(\S+)> \((\d+)\)$", re.MULTILINE)
_NODE_GOAL = re.compile(r"^(\S+) is ([A-Z_]+)$", re.MULTILINE)
_EDGE_GOAL = re.compile(r"^(\S+) is ([A-Z_]+) to (\S+)$", re.MULTILINE)
_ROW = re.compile(r"^\| (\S+)\.(\d+) \| .*? \| (\[.*\]) \|$", re.MULTILINE)
_PREDICATE = re.compile(r"^([A-Z_]+)\((.*)\)$", re.MULTILINE)
_HANDLER = re.compile(r"\(:action (\S+)\s+:parameters (\([^)]*\))\s+:precondition \(\)\s+:effect \(\)\s+\)")

_NAMES = {"NEAR": "CLOSE", "NEXT_TO": "CLOSE", "ONTOP": "ON"}
"""Predicates that prompts call differently."""


@dataclass(frozen=True)
class Problem:
    """A task of a planner.

    Args:
        objects: Properties of each object, by its key ``name.id``.
        facts: What is true.
        goals: What shall be true: of each goal, its alternatives.
        actions: Actions that must be done, in their order: of each, its alternatives.
    """

    objects: dict[str, tuple[str, ...]]
    facts: tuple[Fact, ...]
    goals: tuple[tuple[Fact, ...], ...]
    actions: tuple[tuple[str, ...], ...]


def sequencing_problem(prompt: str) -> Problem:
    """Return the task in a prompt of action sequencing; see :class:`Problem`.

    Goals name objects without their id: of several objects of a name, each must be in the state, and in the relation to
    one of those of the other name.

    Raises:
        UserError: The prompt has another form.
    """
    scene, state, nodes, edges, actions = _parts(
        prompt.rpartition("Input:")[2],
        "The relevant objects in the scene are:",
        "The current environment state is",
        "Node goals are:",
        "Edge goals are:",
        "Action goals are:",
        "Please output",
    )
    objects = {f"{name}.{number}": _listed(properties) for name, number, properties in _OBJECT.findall(scene)}
    called: dict[str, list[str]] = {}
    for key in objects:
        called.setdefault(key.rpartition(".")[0], []).append(key)
    facts: list[Fact] = []
    for name, states in _NODE.findall(state):
        facts += [(one, key) for key in called.get(name, ()) for one in _listed(states)]
    for first, number, relation, second, other in _EDGE.findall(state):
        facts.append((_NAMES.get(relation, relation), f"{first}.{number}", f"{second}.{other}"))
    goals: list[tuple[Fact, ...]] = []
    for name, wanted in _NODE_GOAL.findall(nodes):
        goals += [((wanted, key),) for key in called.get(name, ())]
    for name, relation, target in _EDGE_GOAL.findall(edges):
        relation = _NAMES.get(relation, relation)
        goals += [tuple((relation, key, to) for to in called.get(target, ())) for key in called.get(name, ())]
    lines = actions.splitlines()
    return Problem(objects, tuple(facts), tuple(filter(None, goals)), _actions(lines))


def subgoal_problem(prompt: str) -> Problem:
    """Return the task in a prompt of subgoal decomposition, where objects have their ids.

    Raises:
        UserError: The prompt has another form.
    """
    scene, state, goals, actions = _parts(
        prompt,
        "## Relevant Objects in the Scene",
        "## Initial States",
        "## Goal States",
        "[Actions Must Include]",
        "## Necessity to Use Actions",
    )
    return Problem(
        {f"{name}.{number}": _listed(properties) for name, number, properties in _ROW.findall(scene)},
        tuple(_facts(state)),
        tuple((goal,) for goal in _facts(goals)),
        _actions(actions.splitlines()[1:]),
    )


def wanted_actions(prompt: str) -> list[tuple[str, str]]:
    """Return name and parameters of the actions that a prompt of transition modelling wants."""
    return _HANDLER.findall(prompt.rpartition("Input:")[2])


def sentence(prompt: str) -> tuple[str, list[str]]:
    """Return the description in a prompt of goal interpretation, and the names of its objects.

    Raises:
        UserError: The prompt has another form.
    """
    scene, _, said = _parts(
        prompt,
        "Relevant objects in the scene are:",
        "All possible relationships are",
        "Goal name and goal description:",
        "Now output the symbolic version",
    )
    return said.rpartition("Goal description:")[2].strip(), re.findall(r"^(\S+), initial states", scene, re.MULTILINE)


def _parts(prompt: str, *headings: str) -> list[str]:
    """Return the texts between headings."""
    found = []
    rest = prompt
    for heading in headings:
        before, at, rest = rest.partition(heading)
        if not at:
            raise UserError(f"A prompt of the benchmark has no '{heading}': its package has another version.")
        found.append(before)
    return found[1:]


def _actions(lines: list[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(re.split(r"\|| or ", line)) for line in lines if re.fullmatch(r"[A-Z]+((\|| or )[A-Z]+)*", line))


def _facts(text: str) -> list[Fact]:
    return [
        (_NAMES.get(name, name), *(one.strip() for one in arguments.split(",")))
        for name, arguments in _PREDICATE.findall(text)
    ]


def _listed(text: str) -> tuple[str, ...]:
    return tuple(str(one) for one in ast.literal_eval(text))
