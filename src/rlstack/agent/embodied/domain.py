"""Actions in a household as a planner knows them, written by hand from the benchmark's lists of actions and predicates.

Objects, predicates, and names and parameters of actions are those of its prompts, whose solutions are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlstack.agent.embodied.prompts import CHARACTER, Fact, Problem

_UP = "(not (sitting ?char)) (not (lying ?char))"
_HELD = "(or (holds_rh ?char {0}) (holds_lh ?char {0}))"
_RIGHT_FREE = "(not (exists (?any - object) (holds_rh ?char ?any)))"
_LEFT_FREE = "(not (exists (?any - object) (holds_lh ?char ?any)))"
_DROPPED = "(not (holds_rh ?char {0})) (not (holds_lh ?char {0}))"


@dataclass(frozen=True)
class Action:
    """An action of a robot.

    Args:
        said: Its name in prompts of action sequencing.
        conditions: PDDL conditions, of the character ``?char`` and its objects ``?obj``, or ``?obj1`` and ``?obj2``.
        effects: PDDL effects.
        subgoal: The state that it is for; without one, none is said.
        objects: Number of objects.
    """

    said: str
    conditions: str
    effects: str = ""
    subgoal: str = ""
    objects: int = 1


def _state(said: str, needs: str, before: str, after: str) -> Action:
    conditions = f"({needs} ?obj) ({before} ?obj) (next_to ?char ?obj)"
    return Action(said, conditions, f"({after} ?obj) (not ({before} ?obj))", f"{after.upper()}({{1}})")


ACTIONS: dict[str, Action] = {
    "walk_towards": Action(
        "WALK",
        _UP,
        "(next_to ?char ?obj) (forall (?far - object) (when (not (obj_next_to ?far ?obj)) (not (next_to ?char ?far))))",
        "NEXT_TO({0}, {1})",
    ),
    "walk_into": Action(
        "WALK",
        _UP,
        "(inside ?char ?room) (forall (?other - object) (not (inside ?char ?other)))",
        "INSIDE({0}, {1})",
    ),
    "grab": Action(
        "GRAB",
        f"(grabbable ?obj) (next_to ?char ?obj) (or {_RIGHT_FREE} {_LEFT_FREE})"
        " (not (exists (?in - object) (and (obj_inside ?obj ?in) (closed ?in))))",
        f"(when {_RIGHT_FREE} (holds_rh ?char ?obj)) (when (not {_RIGHT_FREE}) (holds_lh ?char ?obj))"
        " (forall (?from - object) (and (not (obj_ontop ?obj ?from)) (not (obj_inside ?obj ?from))))",
        "HOLDS_RH({0}, {1})",
    ),
    "open": _state("OPEN", "can_open", "closed", "open"),
    "close": _state("CLOSE", "can_open", "open", "closed"),
    "switch_on": Action(
        "SWITCHON",
        "(has_switch ?obj) (off ?obj) (next_to ?char ?obj) (or (plugged_in ?obj) (not (plugged_out ?obj)))",
        "(on ?obj) (not (off ?obj))",
        "ON({1})",
    ),
    "switch_off": _state("SWITCHOFF", "has_switch", "on", "off"),
    "plug_in": _state("PLUGIN", "has_plug", "plugged_out", "plugged_in"),
    "plug_out": _state("PLUGOUT", "has_plug", "plugged_in", "plugged_out"),
    "put_on": Action(
        "PUTBACK",
        f"(next_to ?char ?obj2) {_HELD.format('?obj1')}",
        f"(obj_ontop ?obj1 ?obj2) (obj_next_to ?obj1 ?obj2) {_DROPPED.format('?obj1')}",
        "ONTOP({1}, {2})",
        2,
    ),
    "put_inside": Action(
        "PUTIN",
        f"(next_to ?char ?obj2) {_HELD.format('?obj1')} (or (open ?obj2) (not (can_open ?obj2)))",
        f"(obj_inside ?obj1 ?obj2) {_DROPPED.format('?obj1')}",
        "INSIDE({1}, {2})",
        2,
    ),
    "put_on_character": Action(
        "PUTON",
        f"(clothes ?obj) {_HELD.format('?obj')}",
        f"(on_char ?obj ?char) {_DROPPED.format('?obj')}",
        "ONTOP({1}, {0})",
    ),
    "drop": Action("DROP", _HELD.format("?obj"), _DROPPED.format("?obj")),
    "sit": Action(
        "SIT", f"(sittable ?obj) (next_to ?char ?obj) {_UP}", "(sitting ?char) (ontop ?char ?obj)", "ONTOP({0}, {1})"
    ),
    "lie": Action(
        "LIE", f"(lieable ?obj) (next_to ?char ?obj) {_UP}", "(lying ?char) (ontop ?char ?obj)", "ONTOP({0}, {1})"
    ),
    "standup": Action(
        "STANDUP",
        "(or (sitting ?char) (lying ?char))",
        "(not (sitting ?char)) (not (lying ?char)) (forall (?any - object) (not (ontop ?char ?any)))",
        objects=0,
    ),
    "turn_to": Action("TURNTO", "", "(facing ?char ?obj)", "FACING({0}, {1})"),
    "look_at": Action("LOOKAT", "(facing ?char ?obj)", subgoal="LOOKAT({1})"),
    "watch": Action("WATCH", "(facing ?char ?obj) (next_to ?char ?obj)", subgoal="WATCH({1})"),
    "touch": Action("TOUCH", "(next_to ?char ?obj)", subgoal="TOUCH({1})"),
    "type": Action("TYPE", "(has_switch ?obj) (next_to ?char ?obj)", subgoal="TYPE({1})"),
    "push": Action("PUSH", "(movable ?obj) (next_to ?char ?obj)", subgoal="PUSH({1})"),
    "pull": Action("PULL", "(movable ?obj) (next_to ?char ?obj)", subgoal="PULL({1})"),
    "move": Action("MOVE", "(movable ?obj) (next_to ?char ?obj)", subgoal="MOVE({1})"),
    "wash": Action("WASH", "(next_to ?char ?obj)", "(clean ?obj) (not (dirty ?obj))", "WASH({1})"),
    "rinse": Action("RINSE", "(next_to ?char ?obj)", "(clean ?obj) (not (dirty ?obj))", "RINSE({1})"),
    "scrub": Action("SCRUB", "(next_to ?char ?obj)", "(clean ?obj) (not (dirty ?obj))", "SCRUB({1})"),
    "wipe": Action("WIPE", "(next_to ?char ?obj)", "(clean ?obj) (not (dirty ?obj))"),
    "squeeze": Action("SQUEEZE", "(clothes ?obj) (next_to ?char ?obj)", subgoal="SQUEEZE({1})"),
    "cut": Action("CUT", "(eatable ?obj) (cuttable ?obj) (next_to ?char ?obj)", subgoal="CUT({1})"),
    "eat": Action("EAT", f"(eatable ?obj) {_HELD.format('?obj')}", subgoal="EAT({1})"),
    "drink": Action("DRINK", f"(or (drinkable ?obj) (recipient ?obj)) {_HELD.format('?obj')}", subgoal="DRINK({1})"),
    "read": Action("READ", f"(readable ?obj) {_HELD.format('?obj')}", subgoal="READ({1})"),
    "pour": Action(
        "POUR",
        f"(or (pourable ?obj1) (drinkable ?obj1)) (recipient ?obj2) (next_to ?char ?obj2) {_HELD.format('?obj1')}",
        "(obj_inside ?obj1 ?obj2)",
        "INSIDE({1}, {2})",
        2,
    ),
    "sleep": Action("SLEEP", "(or (lying ?char) (sitting ?char))", subgoal="SLEEP", objects=0),
    "wake_up": Action("WAKEUP", "(or (lying ?char) (sitting ?char))", subgoal="WAKEUP", objects=0),
}
"""What the robot can do, by the name in prompts of transition modelling."""

_PROPERTIES = {"CUTABLE": "cuttable"}
_STATES = ("closed", "open", "on", "off", "plugged_in", "plugged_out", "clean", "dirty")
_PREDICATES = (
    "(sitting ?char - character) (lying ?char - character) (ontop ?char - character ?obj - object)"
    " (on_char ?obj - object ?char - character) (inside ?char - character ?obj - object)"
    " (next_to ?char - character ?obj - object) (facing ?char - character ?obj - object)"
    " (holds_rh ?char - character ?obj - object) (holds_lh ?char - character ?obj - object)"
    " (obj_ontop ?obj1 - object ?obj2 - object) (obj_inside ?obj1 - object ?obj2 - object)"
    " (obj_next_to ?obj1 - object ?obj2 - object)"
)
_ABILITIES = (
    *("grabbable", "cuttable", "can_open", "readable", "has_paper", "movable", "pourable", "cream", "has_switch"),
    *("lookable", "has_plug", "drinkable", "body_part", "recipient", "containers", "cover_object", "surfaces"),
    *("sittable", "lieable", "person", "hangable", "clothes", "eatable"),
)
_OF_CHARACTER = {"ON": "ontop", "INSIDE": "inside", "CLOSE": "next_to"}
_OF_OBJECTS = {"ON": "obj_ontop", "INSIDE": "obj_inside", "CLOSE": "obj_next_to"}


def body(name: str, parameters: str) -> str:
    """Return an action in PDDL, without conditions and effects if it is not known."""
    action = ACTIONS.get(name)
    conditions, effects = (action.conditions, action.effects) if action else ("", "")
    return (
        f"(:action {name}\n  :parameters {parameters}\n  :precondition {_all(conditions)}\n  :effect {_all(effects)}\n)"
    )


def domain_of(problem: Problem) -> str:
    """Return the PDDL domain of a task, in which each action that must be done has a further form that counts."""
    lines = [body(name, _parameters(name)) for name in ACTIONS]
    counts = []
    for number, alternatives in enumerate(_doable(problem)):
        counts.append(f"(done_{number})")
        for name, action in ACTIONS.items():
            if action.said in alternatives and (name == "walk_towards" or action.said != "WALK"):
                after = action.conditions + (f" (done_{number - 1})" if number else "")
                lines.append(
                    f"(:action {name}__{number}\n  :parameters {_parameters(name)}\n  :precondition {_all(after)}\n"
                    f"  :effect {_all(f'{action.effects} (done_{number})')}\n)"
                )
    unary = " ".join(f"({name} ?obj - object)" for name in (*_STATES, *_ABILITIES))
    actions = "\n".join(lines).replace("- object", "- item")
    predicates = f"{_PREDICATES} {unary} {' '.join(counts)}".replace("- object", "- item")
    return (
        "(define (domain household)\n(:requirements :adl)\n(:types item character)\n"
        f"(:predicates {predicates})\n{actions}\n)\n"
    )


def problem_of(problem: Problem, names: Mapping[str, str]) -> str:
    """Return the PDDL problem of a task.

    Args:
        problem: The task.
        names: Name in PDDL of each object, by its key.
    """
    items = [name for key, name in names.items() if not _is_character(key)]
    people = [name for key, name in names.items() if _is_character(key)]
    known = [said for fact in problem.facts if (said := _said(fact, names))]
    for key, properties in problem.objects.items():
        for one in properties:
            able = _PROPERTIES.get(one, one.lower())
            if able in _ABILITIES and not _is_character(key):
                known.append(f"({able} {names[key]})")
    goals = []
    for alternatives in problem.goals:
        texts = [text for fact in alternatives if (text := _said(fact, names))]
        goals += [f"(or {' '.join(texts)})" if len(texts) > 1 else texts[0]] if texts else []
    goals += [f"(done_{number})" for number in range(len(_doable(problem)))][-1:]
    objects = f"{' '.join(items)} - item {' '.join(people)} - character"
    init, goal = " ".join(dict.fromkeys(known)), _all(" ".join(dict.fromkeys(goals)))
    return f"(define (problem task)\n(:domain household)\n(:objects {objects})\n(:init {init})\n(:goal {goal})\n)\n"


def _doable(problem: Problem) -> list[tuple[str, ...]]:
    """Return the actions that must be done and can be, each with its alternatives."""
    known = {action.said for action in ACTIONS.values()}
    return [alternatives for alternatives in problem.actions if known & set(alternatives)]


def _said(fact: Fact, names: Mapping[str, str]) -> str:
    """Return a fact in PDDL; empty if the planner has no such predicate or object."""
    predicate, *keys = fact
    if not keys or any(key not in names for key in keys):
        return ""
    objects = [names[key] for key in keys]
    first = _is_character(keys[0])
    if len(keys) == 1:
        usable = predicate in ("SITTING", "LYING") if first else predicate.lower() in _STATES
        return f"({predicate.lower()} {objects[0]})" if usable else ""
    if len(keys) > 2:
        return ""
    if first and not _is_character(keys[1]):
        name = _OF_CHARACTER.get(predicate, predicate.lower())
        return f"({name} {' '.join(objects)})" if f"({name} ?char - character ?obj" in _PREDICATES else ""
    if _is_character(keys[1]):
        return f"(on_char {' '.join(objects)})" if predicate == "ON" and not first else ""
    return f"({_OF_OBJECTS[predicate]} {' '.join(objects)})" if predicate in _OF_OBJECTS else ""


def _is_character(key: str) -> bool:
    return key.rpartition(".")[0] == CHARACTER


def _parameters(name: str) -> str:
    objects = "?room" if name == "walk_into" else " ".join(("?obj", "?obj1 ?obj2")[: ACTIONS[name].objects][-1:])
    return f"(?char - character{f' {objects} - object' if objects else ''})"


def _all(text: str) -> str:
    return f"(and {text})" if text.strip() else "()"
