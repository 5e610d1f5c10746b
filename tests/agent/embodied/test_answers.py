"""Answers to prompts by grammar and planner: what they read, and that they write what evaluators take."""

from __future__ import annotations

import json
import re

import pytest

from rlstack.agent.embodied.answers import answer
from rlstack.agent.embodied.domain import ACTIONS, body, domain_of, problem_of
from rlstack.agent.embodied.prompts import sequencing_problem, subgoal_problem
from rlstack.errors import UserError

SEQUENCING = """
For example: node goals are "soap is ON". Input:
The relevant objects in the scene are:
Objects in the scene:
character, id: 65, properties: []
machine, id: 1001, properties: ['CAN_OPEN', 'HAS_SWITCH', 'HAS_PLUG']
soap, id: 1002, properties: ['GRABBABLE']
soap, id: 1003, properties: ['GRABBABLE']
-----------------

The current environment state is
Nodes:
machine, states: ['PLUGGED_OUT', 'CLOSED', 'OFF'], properties:['CAN_OPEN', 'HAS_SWITCH', 'HAS_PLUG']

Edges:
<soap> (1002) is NEAR to <machine> (1001)
<character> (65) is INSIDE to <machine> (1001)
-----------------

Node goals are:
machine is ON
-----------------

Edge goals are:
soap is ON to machine
-----------------

Action goals are:
The following action(s) should be included:
TOUCH or PUSH
FROWN
TYPE
-----------------

Please output the list of action commands in json format.
"""

SUBGOALS = """# Target Task: Task category is Wash
## Relevant Objects in the Scene
| character.65 | Characters | [] |
| cat.7 | Animals | ['GRABBABLE'] |

## Initial States
OFF(cat.7)
INSIDE(character.65, cat.7)

## Goal States
[States]
HOLDS_RH(character.65, cat.7)
NEXT_TO(character.65, cat.7)
[Actions Must Include]: Actions are listed in the execution order, each line is one action to satisfy.
TOUCH or PUSH

## Necessity to Use Actions
Yes
"""

MODELLING = """
An example: (:action wave
  :parameters (?char - character)
  :precondition ()
  :effect ()
)
Input:
(:action put_on
  :parameters (?char - character ?obj1 - object ?obj2 - object)
  :precondition ()
  :effect ()
)
(:action fly
  :parameters (?char - character)
  :precondition ()
  :effect ()
)
"""

INTERPRETATION = """Relevant objects in the scene are:
character, initial states: [], possible states: ['LYING']
dining_room, initial states: ['CLEAN'], possible states: ['CLEAN']
All possible relationships are the keys of the following dictionary
Goal name and goal description:
Goal name: Eat

Goal description: {said}

Now output the symbolic version of the goal."""


def test_a_task_is_read_from_the_prompt_and_written_for_a_planner() -> None:
    problem = sequencing_problem(SEQUENCING)
    assert problem.objects["machine.1001"] == ("CAN_OPEN", "HAS_SWITCH", "HAS_PLUG")
    assert ("CLOSE", "soap.1002", "machine.1001") in problem.facts and ("OFF", "machine.1001") in problem.facts
    assert problem.goals[0] == (("ON", "machine.1001"),)
    assert {goal[0][1] for goal in problem.goals[1:]} == {"soap.1002", "soap.1003"}  # which one, the prompt says not
    assert problem.actions == (("TOUCH", "PUSH"), ("FROWN",), ("TYPE",))
    text = problem_of(problem, {key: f"o{number}" for number, key in enumerate(problem.objects)})
    for part in ("(plugged_out o1)", "(obj_next_to o2 o1)", "(inside o0 o1)", "(grabbable o3)", "(obj_ontop o2 o1)"):
        assert part in text
    assert text.index("(:goal") < text.index("(on o1)") and "(done_1)" in text and "(done_2)" not in text
    domain = domain_of(problem)
    assert "(:action touch__0" in domain and "(:action type__1" in domain and "(done_0)" in domain


def test_the_domain_is_well_formed_and_declares_what_it_uses() -> None:
    domain = domain_of(sequencing_problem(SEQUENCING))
    assert domain.count("(") == domain.count(")")
    declared = set(re.findall(r"\((\w+)", domain[domain.index("(:predicates") : domain.index("(:action")]))
    connectives = {"and", "or", "not", "when", "forall", "exists"}
    assert set(re.findall(r"\(([a-z]\w*)", domain[domain.index("(:action") :])) <= declared | connectives
    for name, action in ACTIONS.items():
        variables = set(re.findall(r"\?\w+", body(name, "")))
        assert len(variables & {"?obj", "?room", "?obj1", "?obj2"}) <= action.objects


def test_plans_become_actions_with_names_and_ids() -> None:
    plan = [["walk_towards", "o0", "o1"], ["touch__0", "o0", "o1"], ["put_on", "o0", "o2", "o1"], ["standup", "o0"]]
    said = answer("action_sequencing", SEQUENCING, lambda domain, problem: plan)
    machine, soap = '["machine", "1001"', '["soap", "1002", "machine", "1001"]'
    assert said == f'{{"WALK": {machine}], "TOUCH": {machine}], "PUTBACK": {soap}, "STANDUP": []}}'
    assert answer("action_sequencing", SEQUENCING, lambda domain, problem: None) == ""


def test_plans_become_subgoals() -> None:
    assert subgoal_problem(SUBGOALS).goals[1] == (("CLOSE", "character.65", "cat.7"),)
    plan = [["walk_towards", "o0", "o1"], ["grab", "o0", "o1"], ["touch__0", "o0", "o1"], ["drop", "o0", "o1"]]
    assert json.loads(answer("subgoal_decomposition", SUBGOALS, lambda domain, problem: plan)) == {
        "necessity_to_use_action": "yes",
        "actions_to_include": ["TOUCH"],
        "output": ["NEXT_TO(character.65, cat.7)", "HOLDS_RH(character.65, cat.7)", "TOUCH(cat.7)"],
    }


def test_transition_models_have_the_wanted_actions_alone() -> None:
    said = json.loads(answer("transition_modeling", MODELLING, lambda domain, problem: None))["output"]
    assert re.findall(r":action (\w+)", said) == ["put_on", "fly"]
    assert ":parameters (?char - character ?obj1 - object ?obj2 - object)" in said and "(obj_ontop ?obj1 ?obj2)" in said
    assert said.endswith(":precondition ()\n  :effect ()\n)")


@pytest.mark.parametrize(
    ("sentence", "places"), [("Go to the dining room.", ["dining_room"]), ("I eat some food", None)]
)
def test_the_grammar_interprets_what_it_reads(sentence: str, places: list[str] | None) -> None:
    said = answer("goal_interpretation", INTERPRETATION.format(said=sentence), lambda domain, problem: None)
    if places is None:
        assert said == ""
    else:
        edges = [{"from_name": "character", "relation": "CLOSE", "to_name": name} for name in places]
        assert json.loads(said) == {"node goals": [], "edge goals": edges, "action goals": []}


def test_prompts_of_another_form_are_refused() -> None:
    with pytest.raises(UserError, match="has no 'The relevant objects in the scene are:'"):
        answer("action_sequencing", "Hello", lambda domain, problem: None)
