from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rlstack.agent import executive as module
from rlstack.agent.abilities import Abilities
from rlstack.agent.checks import Situation, Target
from rlstack.agent.executive import Executive
from rlstack.agent.model import Model
from rlstack.errors import UserError
from rlstack.interfaces.instruction import TextInput
from rlstack.nodes.goal_watch import Outcome
from rlstack.robots import load_robot
from tests.support.model_server import model_server

DRONE = Abilities(
    robot="crazyflie",
    policy="hover",
    flies=True,
    has_goal=True,
    turns=True,
    limits=load_robot("crazyflie").goal_limits(),
)
ABOVE = np.array([0.0, 0.0, 1.0])


class Flight:
    """In place of a robot: it does at once what it is asked, unless a test says otherwise."""

    def __init__(self) -> None:
        self.situation = Situation(mode="disarmed", position=np.zeros(3), goal=ABOVE)
        self.asked: list[Any] = []
        self.outcomes: list[Outcome] = []
        self.refusals: dict[str, str] = {}
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        self._seconds += 0.05
        return self._seconds

    def call(self, service: str) -> Any:
        flight = self

        class Answer:
            def poll(self) -> tuple[bool, str]:
                if service not in flight.refusals:
                    flight.becomes(service)
                return service not in flight.refusals, flight.refusals.get(service, "")

        self.asked.append(service)
        return Answer()

    def becomes(self, service: str) -> None:
        if service == "arm":
            self.situation = replace(self.situation, mode="policy", off=False, position=ABOVE)
        elif service in ("rest", "estop"):
            self.situation = replace(self.situation, mode="disarmed", off=True)

    def send_goal(self, target: Target) -> None:
        self.asked.append(tuple(np.round(target.position, 3).tolist()))
        outcome = self.outcomes.pop(0) if self.outcomes else Outcome("reached")
        if outcome.state == "reached":
            self.situation = replace(self.situation, position=target.position, heading_rad=target.heading_rad)
        self.situation = replace(self.situation, goal=target.position)
        self.now = outcome

    def outcome(self) -> Outcome:
        return self.now

    def instruct(self, text: str) -> None:
        self.asked.append(text)


@pytest.fixture
def flight() -> Flight:
    return Flight()


def run(
    flight: Flight, sentence: str, model: Model | None = None, each: Callable[[int], None] = lambda n: None
) -> list[str]:
    """Run a sentence to its end, and return what is said."""
    said: list[str] = []
    executive = Executive(flight, DRONE, model, said.append)
    executive.begin(sentence)
    end, count = time.monotonic() + 10.0, 0
    while executive.busy:
        assert time.monotonic() < end, said
        executive.tick()
        each(count)
        count += 1
    assert executive.verdict is not None and executive.verdict.said == said[-1]
    return said


def test_a_sentence_is_planned_said_and_done(flight: Flight) -> None:
    said = run(flight, "take off, fly to 0.5 0 1.2, wait 1 second, come back and land")
    assert flight.asked == ["arm", (0.5, 0.0, 1.2), (0.0, 0.0, 1.2), "rest"]
    assert said[0].startswith("The plan: 1 take off; 2 go to 0.50 0.00 1.20 m; 3 wait 1 s; 4 come back")
    assert said[1] == "1 of 5: take off" and said[-1] == "Done."


def test_nothing_moves_for_a_plan_that_cannot_be_done(flight: Flight) -> None:
    said = run(flight, "take off, fly to 9 0 1")
    assert flight.asked == [] and said[-1].startswith("Nothing was done: Step 2, go to 9.00")


def test_a_refused_service_stops_it_with_the_reason(flight: Flight) -> None:
    flight.refusals["arm"] = "no valid observation within 0.2 s"
    said = run(flight, "take off and land")
    assert said[-1] == ("Stopped: arming was refused: no valid observation within 0.2 s; not done: take off; land.")


def test_a_guard_that_takes_over_has_the_rest_planned_anew_a_bounded_number_of_times(flight: Flight) -> None:
    taken = Outcome("failed", "the guard is in the mode hover (late)", "taken over")
    flight.outcomes = [taken]
    said = run(flight, "take off, fly to 1 0 1, fly to 0 1 1")
    assert flight.asked == ["arm", (1.0, 0.0, 1.0), "hold", (1.0, 0.0, 1.0), (0.0, 1.0, 1.0)] and said[-1] == "Done."
    flight.outcomes, flight.asked = [taken] * 9, []
    said = run(flight, "fly to 1 0 1")
    assert flight.asked.count((1.0, 0.0, 1.0)) == 1 + module.MOST_REPLANS
    assert "planned anew 2 times" in said[-1] and said[-1].startswith("Stopped: the guard is in the mode hover (late)")


@pytest.mark.parametrize("cause", ["replaced", "off", "silent"])
def test_what_somebody_else_decided_is_not_tried_again(flight: Flight, cause: Any) -> None:
    flight.outcomes = [Outcome("failed", "why", cause)]
    said = run(flight, "take off, fly to 1 0 1 and land")
    assert flight.asked.count((1.0, 0.0, 1.0)) == 1
    assert said[-1] == "Stopped: why; not done: go to 1.00 0.00 1.00 m; land."


def test_a_robot_that_is_switched_off_while_it_waits_ends_the_plan(flight: Flight) -> None:
    def off(count: int) -> None:
        if count == 6:
            flight.situation = replace(flight.situation, mode="disarmed", reason="tumbled", off=True)

    said = run(flight, "take off, wait 100 s, land", each=off)
    assert "the guard is in the mode disarmed (tumbled)" in said[-1] and "rest" not in flight.asked


def test_it_does_one_thing_at_a_time_and_can_be_stopped(flight: Flight) -> None:
    said: list[str] = []
    executive = Executive(flight, DRONE, None, said.append)
    executive.begin("take off, wait 100 s")
    for _ in range(5):
        executive.tick()
    with pytest.raises(UserError, match="It is busy: wait 100 s"):
        executive.begin("land")
    executive.stop("asked to stop")
    assert flight.asked == ["arm", "hold"] and said[-1] == "Stopped: asked to stop." and not executive.busy


def test_a_model_plans_and_plans_anew_from_the_failure(flight: Flight) -> None:
    def answer(request: dict[str, Any]) -> str:
        first = len(request["messages"]) == 2
        steps = [{"skill": "take_off"}, {"skill": "go_to", "position": [1, 0, 1]}] if first else [{"skill": "land"}]
        return json.dumps({"steps": steps})

    flight.outcomes = [Outcome("failed", "the goal is in a wall", "refused")]
    with model_server(answer) as server:
        said = run(flight, "go there", Model(server.url, "tiny"))
    assert flight.asked == ["arm", (1.0, 0.0, 1.0), "hold", "rest"] and said[-1] == "Done."
    assert "the goal is in a wall" in server.requests[1]["messages"][2]["content"]


def test_a_model_that_answers_nonsense_leaves_the_robot_where_it_is(flight: Flight) -> None:
    with model_server(lambda request: "Flying!") as server:
        said = run(flight, "take off", Model(server.url, "tiny"))
    assert flight.asked == [] and said[-1].startswith("Nothing was done: The model's answer is not JSON alone")


def test_a_models_plan_outside_the_fence_is_refused_before_anything_moves(flight: Flight) -> None:
    plan = {"steps": [{"skill": "take_off"}, {"skill": "go_to", "position": [99, 0, 1]}]}
    with model_server(lambda request: json.dumps(plan)) as server:
        said = run(flight, "go far", Model(server.url, "tiny"))
    assert flight.asked == [] and "outside the geofence" in said[-1]


def test_an_emergency_stop_asks_no_model(flight: Flight) -> None:
    run(flight, "emergency stop!", Model("http://127.0.0.1:1/v1", "tiny"))
    assert flight.asked == ["estop"]


def test_a_policy_has_its_instruction_before_it_is_armed_and_rests_where_it_is_stopped(flight: Flight) -> None:
    text = TextInput(words=("push", "the", "block", "left"))
    arm, said = Abilities(robot="panda", policy="told", fixed=True, text=text), []
    flight.situation = replace(flight.situation, hears_goals=False)
    executive = Executive(flight, arm, None, said.append)
    executive.begin("arm, push the block left for 100 seconds")
    for _ in range(5):
        executive.tick()
    executive.stop("asked to stop")
    assert flight.asked == ["push the block left", "arm", "push the block left", "rest"]


def test_a_policy_that_waits_is_armed_once_it_follows_its_instruction_and_nobody_says_that_it_is_done(
    flight: Flight,
) -> None:
    drone = Abilities(robot="crazyflie", policy="told", flies=True, text=TextInput(words=("see", "the", "ball")))
    flight.situation = replace(flight.situation, hears_goals=False, instruction="")
    said: list[str] = []
    executive = Executive(flight, drone, None, said.append)
    executive.begin("take off, see the ball for 0.1 seconds", only_plan=True)
    while executive.busy:
        executive.tick()
    assert said[-1] == "Done." and not flight.asked
    executive.begin("take off, see the ball for 0.1 seconds")
    for _ in range(20):
        executive.tick()
    assert flight.asked == ["see the ball"]
    flight.situation = replace(flight.situation, instruction="see the ball")
    while executive.busy:
        executive.tick()
    assert flight.asked == ["see the ball", "arm", "see the ball"]
    assert said[-1] == "Time is up; nothing measures whether it did what it was told."
    assert executive.verdict is not None and executive.verdict.how == "done"
