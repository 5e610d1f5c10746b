from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack.agent.abilities import Abilities
from rlstack.agent.grammar import plan_by_grammar
from rlstack.agent.skills import GoTo, Instruct, Move, Turn, Wait
from rlstack.errors import UserError
from rlstack.interfaces.instruction import TextInput

PLACES = {"kitchen": (2.0, 1.0), "red door": (1.0, 2.0, 1.5)}
DRONE = Abilities(robot="crazyflie", policy="hover", flies=True, has_goal=True, turns=True, places=PLACES)
BASE = Abilities(robot="turtlebot", policy="navigation", has_goal=True, places=PLACES)
ARM = Abilities(
    robot="panda",
    policy="table_push",
    fixed=True,
    text=TextInput(words=("push", "the", "red", "block", "to", "left", "slide"), examples=("push the red block left",)),
)


@pytest.mark.parametrize(
    ("sentence", "plan"),
    [
        (
            "Take off, fly to 0.5 0 1.2, wait 1 second, come back and land",
            ["take off", "go to 0.50 0.00 1.20 m", "wait 1 s", "come back to the start", "land"],
        ),
        ("go 2 m forward", ["go 2.00 m forward"]),
        ("move back 50 cm", ["go 0.50 m backward"]),
        ("climb 30 cm and 1 metre right then turn left 90 degrees", [
            "go 0.30 m up",
            "go 1.00 m to the right",
            "turn left by 90 degrees",
        ]),
        ("fly to 1, -0.5, 1.2 facing 90 degrees", ["go to 1.00 -0.50 1.20 m, heading 90 degrees"]),
        ("could you please go to the red door?", ["go to the place 'red door'"]),
        ("fly to the kitchen at 1.5 m", ["go to 2.00 1.00 1.50 m"]),
        ("go back to the kitchen", ["go to the place 'kitchen'"]),
        ("return home", ["come back to the start"]),
        ("go back. Land.", ["come back to the start", "land"]),
        ("wait for two minutes", ["wait 120 s"]),
        ("stay here for 3 seconds", ["wait 3 s"]),
        ("stop", ["hold the position"]),
        ("emergency stop", ["emergency stop"]),
        ("go to kitchen twice", ["go to the place 'kitchen'"] * 2),
        ("go up 1 m, go down 1 m, repeat twice", ["go 1.00 m up", "go 1.00 m down"] * 3),
        ("go up 1 m, do that again", ["go 1.00 m up"] * 2),
    ],
)  # fmt: skip
def test_sentences_become_steps(sentence: str, plan: list[str]) -> None:
    assert [step.shown() for step in plan_by_grammar(sentence, DRONE)] == plan


def test_numbers_keep_their_units() -> None:
    steps = plan_by_grammar("go 250 mm left; turn right by 0.5 rad; wait 2.5 s; go to 1 2", BASE)
    assert steps == (Move(left=0.25), Turn(-0.5), Wait(2.5), GoTo((1.0, 2.0)))
    assert plan_by_grammar("turn around", DRONE) == (Turn(math.pi),)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("fyl to 1 2 3", "The word 'fyl' in 'fyl to 1 2 3' is not known. Nearest: fly, "),
        ("go to the kichen", "Nearest: kitchen, .* Places: kitchen, red door"),
        ("fly to", "before the end something else must come, such as a number, a place \\(kitchen, red door\\)"),
        ("fly to 1 2 3 4", "'fly to 1 2 3 4' is not understood"),
        ("fly to 1 2 3 times", "say how many times"),
        ("go forward", "before the end something else must come, such as 'by', a number"),
        ("go to 1 2 1 at height 3", "the height is given twice"),
        ("repeat twice", "nothing comes before it"),
        ("go up 1 m 21 times", "a whole number from 1 to 20"),
        ("go up 1 m 20 times, repeat 5 times", "more than 100 steps"),
        ("wait 100 minutes", "must be at most 600"),
        ("go 0 m forward", "give a distance other than 0"),
        ("go to 1 2 nan", "The word 'nan'"),
        ("push the red block left", "The word 'push'"),
        ("  ,  ", "The sentence is empty: say what to do, such as 'take off, "),
        ("go " * 500, "at most 1000"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_nearest(sentence: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan_by_grammar(sentence, DRONE)


def test_instructions_go_to_the_policy_whole_and_in_its_words() -> None:
    steps = plan_by_grammar("arm, push the red block to the left for 5 seconds, then wait 2 s", ARM)
    assert steps[1:] == (Instruct("push the red block to the left", 5.0), Wait(2.0))


@pytest.mark.parametrize(
    ("sentence", "unknown", "near"),
    [
        ("push the rde block left", "rde", "red, the, slide"),
        ("push the tool to 0.2 0 0.1", "tool", "to, the, block"),  # of ours, but no word of the policy's
        ("to 0.2 0 0.1", "0", "to, red, the"),
    ],
)
def test_a_policy_without_goals_is_offered_in_its_own_words_alone(sentence: str, unknown: str, near: str) -> None:
    with pytest.raises(UserError) as refusal:
        plan_by_grammar(sentence, ARM)
    assert str(refusal.value) == (
        f"The word '{unknown}' in '{sentence}' is none of the policy's. Nearest: {near}. table_push takes instructions"
        " and no goals: say it like 'push the red block left'."
    )


WORDS = ["go", "fly", "to", "1", "-2e9", ".", ",", "and", "back", "m", "up", "wait", "s", "@", "#", "_go_"]


@settings(max_examples=40)
@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_text_is_a_plan_or_a_sentence_of_refusal(text: str) -> None:
    try:
        assert plan_by_grammar(text, DRONE)
    except UserError as error:
        assert str(error).endswith(".")
