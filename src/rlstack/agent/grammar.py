"""A plan from a sentence by a grammar: without a language model, and the same every time.

A sentence is split into clauses at commas, "and" and "then"; each clause is one skill. Words that mean nothing are
refused with the nearest known ones: nothing is guessed that would move a robot.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from lark import Lark, Transformer
from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError

from rlstack.agent.abilities import Abilities
from rlstack.agent.skills import (
    MOST_STEPS,
    Arm,
    Disarm,
    Estop,
    GoTo,
    Hold,
    Instruct,
    Land,
    Move,
    Rest,
    Return,
    Step,
    TakeOff,
    Turn,
    Wait,
)
from rlstack.errors import UserError
from rlstack.interfaces.instruction import edits, split_words
from rlstack.schema import check

MOST_CHARACTERS = 1000
MOST_REPETITIONS = 20

_GRAMMAR = r"""
clause: step count?          -> counted
      | REPEAT count         -> repeated
step: TAKE OFF               -> take_off
    | (ARM | START)          -> arm
    | LAND                   -> land
    | REST                   -> rest
    | DISARM                 -> disarm
    | ESTOP                  -> estop
    | STOP (HERE | THERE)?   -> hold
    | back                   -> back
    | (WAIT | STOP) (HERE | THERE)? FOR? NUMBER TIME? -> wait
    | GOES where height? heading? -> goto
    | GOES way -> move
    | way      -> move
    | TURN AROUND            -> around
    | TURN (SIDE BY? angle | BY? angle SIDE) -> turn
back: (GO | MOVE) BACK (TO PLACE)? | (GO | MOVE) BACK TO START
where: (TO | AT)? PLACE      -> place
     | (TO | AT)? NUMBER NUMBER NUMBER? METRES? -> position
height: AT (HEIGHT OF?)? NUMBER METRES?
heading: FACING angle
angle: NUMBER ANGLE?
way: NUMBER METRES? direction | direction BY? NUMBER METRES?
   | NUMBER METRES? BACK | BACK BY? NUMBER METRES?
direction: AHEAD | TO? SIDE | UP | DOWN
count: NUMBER TIMES | TIMES
"""

_WORDS: dict[str, tuple[str, ...]] = {
    "TAKE": ("take",),
    "OFF": ("off",),
    "ARM": ("arm",),
    "START": ("start",),
    "LAND": ("land",),
    "REST": ("rest", "park"),
    "DISARM": ("disarm",),
    "ESTOP": ("estop",),
    "STOP": ("stop", "stay", "hold", "hover"),
    "HERE": ("here", "position"),
    "THERE": ("there",),
    "BACK": ("back", "backward", "backwards"),
    "WAIT": ("wait", "pause"),
    "FOR": ("for",),
    "TIME": ("s", "sec", "second", "seconds", "min", "minute", "minutes"),
    "GO": ("go", "fly", "drive", "come", "return"),
    "MOVE": ("move", "put", "bring", "place"),
    "TOOL": ("tool", "gripper", "hand"),
    "OBJECT": ("object", "block", "cube"),
    "TO": ("to",),
    "AT": ("at",),
    "HEIGHT": ("height", "altitude"),
    "OF": ("of",),
    "FACING": ("facing", "heading"),
    "TURN": ("turn", "rotate", "yaw"),
    "AROUND": ("around",),
    "SIDE": ("left", "right"),
    "BY": ("by",),
    "ANGLE": ("degree", "degrees", "deg", "rad", "radian", "radians"),
    "METRES": ("m", "metre", "metres", "meter", "meters", "cm", "centimetre", "centimetres", "centimeters", "mm"),
    "AHEAD": ("forward", "forwards", "ahead"),
    "UP": ("up", "upward", "upwards", "higher"),
    "DOWN": ("down", "downward", "downwards", "lower"),
    "REPEAT": ("repeat",),
    "TIMES": ("times", "once", "twice", "thrice"),
}
"""The words of the grammar, by terminal."""

_PHRASES = (
    (r"\be-?stop\b|\bemergency stop\b", "estop"),
    (r"\btakeoff\b|\btake-off\b|\blift off\b", "take off"),
    (r"\b(?:come|go|fly|drive|move) home\b|\breturn(?: home)?(?= *$)", "go back"),
    (r"\breturn (?=to the start|to start)", "go back "),
    (r"\b(?:climb|rise|ascend)\b", "go up"),
    (r"\b(?:descend|sink)\b", "go down"),
    (r"\b(?:do|repeat|execute) (?:it|that|this|everything|all that)\b", "repeat"),
    (r"\brepeat(?= *$)|\brepeat again\b|\bagain\b", "repeat once"),
    (r"\bhold (?:your|the|its) position\b", "hold"),
)
"""Ways to say what the grammar says otherwise."""

_IGNORED = frozenset(
    ("please", "now", "the", "a", "an", "robot", "drone", "you", "your", "its", "can", "could", "would", "it", "just")
)
_CLAUSES = re.compile(r"\s*(?:[,;!?]|\.(?=\s|$)|\band\s+then\b|\bthen\b|\bafterwards\b|\band\b)+\s*")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")
_TOKEN = re.compile(rf"{_NUMBER.pattern}|[^\W\d_]+|\S")
_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SCALES = {"cm": 0.01, "ce": 0.01, "mm": 0.001}
_TIMES = {"once": 1, "twice": 2, "thrice": 3}
_FOR = re.compile(r"\s+for\s+(\d+(?:\.\d+)?)\s*(?:s|sec|seconds?)\s*$")
_TAKEN = frozenset(word for words in _WORDS.values() for word in words) | _IGNORED
_PLACE = "PLACE"

_PARSER = Lark(
    _GRAMMAR.replace("GOES", "(GO | MOVE (TOOL | OBJECT)?)")  # a rule of its own would need to look further ahead
    + "".join(
        f"{name}: {' | '.join(f'{chr(34)}_{word}_{chr(34)}' for word in words)}\n" for name, words in _WORDS.items()
    )
    + 'PLACE: /@[^@]*@/\nNUMBER: /#[^#]*#/\n%ignore " "\n',
    start="clause",
    parser="lalr",
)

RESERVED = _TAKEN | {"home", "start", "then", "and"}
"""Words that are no names of places."""


class _Steps(Transformer):  # type: ignore[misc]
    """Makes steps of a clause's tree."""

    def __init__(self, abilities: Abilities) -> None:
        super().__init__()
        self._abilities = abilities

    def NUMBER(self, token: Any) -> float:
        return float(token.strip("#"))

    def PLACE(self, token: Any) -> Any:
        return GoTo(place=token.strip("@"))

    def take_off(self, _: list[Any]) -> Step:
        return TakeOff()

    def arm(self, _: list[Any]) -> Step:
        return TakeOff() if self._abilities.flies else Arm()

    def land(self, _: list[Any]) -> Step:
        return Land()

    def rest(self, _: list[Any]) -> Step:
        return Land() if self._abilities.flies else Rest()

    def disarm(self, _: list[Any]) -> Step:
        return Disarm()

    def estop(self, _: list[Any]) -> Step:
        return Estop()

    def hold(self, _: list[Any]) -> Step:
        return Hold()

    def back(self, parts: list[Any]) -> Step:
        return next((part for part in parts if isinstance(part, GoTo)), Return())

    def wait(self, parts: list[Any]) -> Step:
        minutes = any(isinstance(part, str) and part.startswith("_min") for part in parts)
        return Wait(_first_number(parts) * (60.0 if minutes else 1.0))

    def place(self, parts: list[Any]) -> GoTo:
        return next(part for part in parts if isinstance(part, GoTo))

    def position(self, parts: list[Any]) -> GoTo:
        scale = _scale(parts)
        return GoTo(tuple(part * scale for part in parts if isinstance(part, float)))

    def height(self, parts: list[Any]) -> tuple[str, float]:
        return "height", _first_number(parts) * _scale(parts)

    def angle(self, parts: list[Any]) -> tuple[str, float]:
        radians = any(isinstance(part, str) and part.startswith("_rad") for part in parts)
        return "angle", _first_number(parts) if radians else math.radians(_first_number(parts))

    def heading(self, parts: list[Any]) -> tuple[str, float]:
        return "heading", parts[-1][1]

    def goto(self, parts: list[Any]) -> Step:
        goal = next(part for part in parts if isinstance(part, GoTo))
        more: dict[str, float] = dict(part for part in parts if isinstance(part, tuple))
        position = self._abilities.places[goal.place] if goal.place else goal.position
        if "height" in more:
            if len(position) == 3 and not goal.place:
                raise ValueError("the height is given twice")
            position = (*position[:2], more["height"])
            return GoTo(position, heading_rad=more.get("heading"))
        return GoTo(goal.position, goal.place, more.get("heading"))

    def direction(self, parts: list[Any]) -> tuple[str, float]:
        word = str(parts[-1]).strip("_")
        ways = {"l": ("left", 1.0), "r": ("left", -1.0), "u": ("up", 1.0), "h": ("up", 1.0)}
        if word == "lower" or word.startswith("d"):
            return "up", -1.0
        return ways.get(word[0], ("forward", 1.0))

    def way(self, parts: list[Any]) -> Step:
        axis, sign = next((part for part in parts if isinstance(part, tuple)), ("forward", -1.0))
        return Move(**{axis: sign * _first_number(parts) * _scale(parts)})

    def move(self, parts: list[Any]) -> Step:
        return next(part for part in parts if isinstance(part, Move))

    def around(self, _: list[Any]) -> Step:
        return Turn(math.pi)

    def turn(self, parts: list[Any]) -> Step:
        side = -1.0 if any(isinstance(part, str) and part == "_right_" for part in parts) else 1.0
        return Turn(side * next(part for part in parts if isinstance(part, tuple))[1])

    def count(self, parts: list[Any]) -> int:
        number = next((part for part in parts if isinstance(part, float)), None)
        if number is None:
            word = str(parts[-1]).strip("_")
            if word not in _TIMES:
                raise ValueError("say how many times")
            return _TIMES[word]
        if not number.is_integer() or not 1 <= number <= MOST_REPETITIONS:
            raise ValueError(f"repetitions must be a whole number from 1 to {MOST_REPETITIONS}")
        return int(number)

    def counted(self, parts: list[Any]) -> tuple[Step | None, int]:
        return parts[0], parts[1] if len(parts) > 1 else 1

    def repeated(self, parts: list[Any]) -> tuple[Step | None, int]:
        return None, parts[-1]


def plan_by_grammar(sentence: str, abilities: Abilities) -> tuple[Step, ...]:
    """Return the steps that a sentence asks for.

    "N times" after a clause does it N times in all; "repeat N times" does everything before it N more times.

    Args:
        sentence: Such as "take off, fly to 0.5 0 1.2, wait 1 second, then come back and land".
        abilities: The robot's.

    Raises:
        UserError: It is empty or too long, or has unknown words or an unknown form; the nearest known words are named.
    """
    if len(sentence) > MOST_CHARACTERS:
        raise UserError(f"A sentence of {len(sentence)} characters is not allowed: at most {MOST_CHARACTERS}.")
    text = re.sub(r"(?<=\d)\s*,\s*(?=[-+.]?\d)", " ", sentence.lower().strip())
    steps: list[Step] = []
    for clause in filter(None, _CLAUSES.split(text)):
        step, count = _read(clause, abilities)
        if step is None and not steps:
            raise UserError(f"'{clause}': nothing comes before it that could be repeated.")
        steps += steps * count if step is None else [step] * count
        if len(steps) > MOST_STEPS:
            raise UserError(f"The plan has more than {MOST_STEPS} steps: ask for less at once.")
    if not steps:
        raise UserError(f"The sentence is empty: say what to do, such as {_example(abilities)}.")
    return tuple(steps)


def _read(clause: str, abilities: Abilities) -> tuple[Step | None, int]:
    """Return a clause's step, None to repeat all before, and its count."""
    if _is_instruction(clause, abilities):
        return _instruction(clause, abilities), 1
    text = clause
    for pattern, meaning in _PHRASES:
        text = re.sub(pattern, meaning, text)
    marked, names = [], sorted(abilities.places, key=len, reverse=True)
    words = [word for word in _TOKEN.findall(text) if word not in _IGNORED]
    while words:
        found = next((name for name in names if words[: len(name.split())] == name.split()), "")
        if found:
            marked.append(f"@{found}@")
            words = words[len(found.split()) :]
            continue
        word = words.pop(0)
        number = str(_COUNTS.index(word)) if word in _COUNTS else word
        if _NUMBER.fullmatch(number):
            marked.append(f"#{number}#")
        elif word in _TAKEN:
            marked.append(f"_{word}_")
        else:
            raise UserError(_unknown(word, clause, abilities))
    try:
        step, count = _Steps(abilities).transform(_PARSER.parse(" ".join(marked)))
    except UnexpectedInput as error:
        raise UserError(_misplaced(clause, error, abilities)) from error
    except VisitError as error:
        raise UserError(f"'{clause}': {str(error.orig_exc).rstrip('.')}.") from error
    if step is not None:
        check(step, f"'{clause}'")
    return step, count


def _is_instruction(clause: str, abilities: Abilities) -> bool:
    """Return whether a clause is for the policy: it begins with a word of the policy's, and is no clause of ours."""
    words = [word for word in split_words(clause) if word not in ("please", "now")]
    if abilities.text is None or not words:
        return False
    known = set(abilities.text.words)
    if words[0] not in known:
        return False
    mine = all(word in _TAKEN or word.isdigit() for word in words)
    return not (mine and abilities.has_goal)


def _instruction(clause: str, abilities: Abilities) -> Step:
    """Return the step of an instruction; every word must be one of the policy's."""
    assert abilities.text is not None
    length = _FOR.search(clause)
    text = clause[: length.start()] if length else clause
    for word in split_words(text):
        if word not in abilities.text.words:
            raise UserError(_unknown(word, clause, abilities, instructs=True))
    step = Instruct(text, float(length.group(1))) if length else Instruct(text)
    check(step, f"'{clause}'")
    return step


def _unknown(word: str, clause: str, abilities: Abilities, instructs: bool = False) -> str:
    """Return what is said of an unknown word; of one in a clause for the policy, with no words but the policy's."""
    theirs = set() if abilities.text is None else set(abilities.text.words)
    ours = _TAKEN - _IGNORED | {part for name in abilities.places for part in name.split()}
    alone = instructs and not abilities.has_goal
    near = sorted(theirs if alone else ours | theirs, key=lambda other: (edits(word, other), other))[:3]
    if alone:
        return (
            f"The word '{word}' in '{clause}' is none of the policy's. Nearest: {', '.join(near)}. {abilities.policy}"
            f" takes instructions and no goals: say it like {_example(abilities)}."
        )
    return (
        f"The word '{word}' in '{clause}' is not known. Nearest: {', '.join(near)}."
        f"{_places(abilities)} Say it like {_example(abilities)}."
    )


def _misplaced(clause: str, error: UnexpectedInput, abilities: Abilities) -> str:
    expected: set[str] = set()
    at = "the end"
    if isinstance(error, UnexpectedToken):
        found: Any = error.token  # type: ignore[attr-defined]
        expected = set(error.accepts or error.expected)
        at = f"'{str(found).strip('_@#')}'" if found.type != "$END" else at
    said = [_said(name, abilities) for name in sorted(expected - {"$END"})]
    hint = f" before {at} something else must come, such as {', '.join(filter(None, said[:6]))}." if said else ""
    return f"'{clause}' is not understood:{hint or ' it has another form.'} Say it like {_example(abilities)}."


def _said(terminal: str, abilities: Abilities) -> str:
    if terminal == _PLACE:
        return f"a place ({', '.join(abilities.places)})" if abilities.places else ""
    return "a number" if terminal == "NUMBER" else f"'{_WORDS[terminal][0]}'"


def _places(abilities: Abilities) -> str:
    return f" Places: {', '.join(abilities.places)}." if abilities.places else ""


def _example(abilities: Abilities) -> str:
    if abilities.text is not None and abilities.text.examples:
        return f"'{abilities.text.examples[0]}'"
    if not abilities.has_goal:
        return "'arm, wait 3 seconds and rest'"
    if abilities.flies:
        return "'take off, fly to 1 0.5 1.2, wait 3 seconds, then come back and land'"
    where = "0.5 0.2 0.3" if abilities.fixed else "0.5 0.2"
    return f"'{abilities.goes} {where}, wait 3 seconds and come back'"


def _first_number(parts: Sequence[Any]) -> float:
    return next(part for part in parts if isinstance(part, float))


def _scale(parts: Sequence[Any]) -> float:
    unit = next((str(part).strip("_") for part in parts if isinstance(part, str) and str(part)[1:2] in ("c", "m")), "")
    return _SCALES.get(unit[:2], 1.0)
