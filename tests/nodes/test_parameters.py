from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.parameter import Parameter as RosParameter

from rlstack.errors import UserError
from rlstack.nodes.parameters import Parameter, ParameterSet

RATE = Parameter("rate", 1.0, "Rate, Hz.", minimum=0.5, maximum=10.0, live=True)
COUNT = Parameter("count", 3, "How many.", minimum=0, live=True)
MODE = Parameter("mode", "fast", "How.", choices=("fast", "slow"))
PLACE = Parameter("place", (math.nan,) * 3, "Where, m.", nan=True, live=True)
FLAG = Parameter("flag", False, "Whether.", live=True)
ALL = (RATE, COUNT, MODE, PLACE, FLAG)


@settings(deadline=None)
@given(st.one_of(st.floats(), st.integers(), st.text(max_size=3), st.booleans(), st.lists(st.floats(), max_size=4)))
def test_what_is_checked_is_of_the_right_type_and_in_range(value: Any) -> None:
    for parameter in ALL:
        try:
            checked = parameter.checked(value)
        except ValueError as error:
            assert parameter.name in str(error) and "must be" in str(error)
            continue
        assert type(checked) is type(parameter.default)
        if parameter is RATE:
            assert 0.5 <= checked <= 10.0


@pytest.mark.parametrize(
    "parameter, value, allowed",
    [
        (RATE, 11.0, "between 0.5 and 10"),
        (RATE, math.nan, "a finite number"),
        (RATE, True, "a number"),
        (COUNT, -1, "at least 0"),
        (COUNT, 1.5, "a whole number"),
        (MODE, "slwo", "one of fast, slow"),
        (PLACE, [1.0, 2.0], "3 numbers"),
        (PLACE, [1.0, 2.0, math.inf], "a finite number"),
        (FLAG, 1, "true or false"),
    ],
)
def test_refusals_say_what_is_allowed(parameter: Parameter, value: Any, allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        parameter.checked(value)


@pytest.fixture
def context(_ros_environment: None) -> Iterator[rclpy.Context]:
    made = rclpy.Context()
    rclpy.init(context=made)
    yield made
    rclpy.shutdown(context=made)


def node(context: rclpy.Context, *arguments: str) -> Any:
    return rclpy.create_node("thing", context=context, cli_args=["--ros-args", *arguments], use_global_arguments=False)


@pytest.mark.integration
class TestParameterSet:
    def test_values_come_from_python_and_the_command_line_goes_first(self, context: rclpy.Context) -> None:
        made = node(context, "-p", "rate:=2", "-p", "place:=[1.0, 2.0, 3.0]")
        values = ParameterSet(made, ALL, {"rate": 3.0, "count": 7})
        assert (values["rate"], values["count"], values["place"]) == (2.0, 7, (1.0, 2.0, 3.0))
        assert made.get_parameter("count").value == 7
        described = made.describe_parameter("rate")
        assert described.description == "Rate, Hz." and not described.read_only
        assert described.floating_point_range[0].to_value == 10.0
        assert made.describe_parameter("mode").read_only

    @pytest.mark.parametrize(
        "argument, words",
        [
            ("rate:=fast", "rate: 'fast' is not allowed: must be a number"),
            ("rate:=0.1", "rate: 0.1 is not allowed: must be between 0.5 and 10"),
            ("mode:=slwo", "must be one of fast, slow"),
        ],
    )
    def test_bad_initial_values_are_refused(self, context: rclpy.Context, argument: str, words: str) -> None:
        with pytest.raises(UserError, match=words.replace(".", r"\.")):
            ParameterSet(node(context, "-p", argument), ALL)

    def test_names_of_other_nodes_are_ignored_and_said(
        self, context: rclpy.Context, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        group = tmp_path / "group.yaml"
        group.write_text("/**:\n  ros__parameters:\n    rate: 2.5\n    camera_gain: 3\n")
        values = ParameterSet(node(context, "--params-file", str(group), "-p", "raet:=1.0"), ALL)
        assert values["rate"] == 2.5
        said = capfd.readouterr().err
        assert "The parameter 'camera_gain' is ignored: this node has none of that name." in said
        assert "The parameter 'raet' is ignored: this node has none of that name. Nearest: rate." in said

    def test_names_in_python_are_checked(self, context: rclpy.Context) -> None:
        with pytest.raises(UserError, match=r"Unknown parameter 'raet'\. Nearest: rate"):
            ParameterSet(node(context), ALL, {"raet": 1.0})

    def test_a_value_in_force_is_shown_and_stays_read_only(self, context: rclpy.Context) -> None:
        made = node(context)
        corner = Parameter("corner", (), "Where, m.", each=float)
        values = ParameterSet(made, [corner, Parameter("limit", math.nan, "Limit, m.", nan=True)])
        values.show("corner", (1.0, 2.0))
        values.show("limit", 0.5)
        assert list(made.get_parameter("corner").value) == [1.0, 2.0] and made.get_parameter("limit").value == 0.5
        assert values["corner"] == () and math.isnan(values["limit"])  # what was asked for stays known
        assert made.describe_parameter("limit").description == "Limit, m."
        (refused,) = made.set_parameters([RosParameter("limit", value=0.1)])
        assert not refused.successful and made.get_parameter("limit").value == 0.5

    def test_a_node_may_refuse_a_change_with_a_reason(self, context: rclpy.Context) -> None:
        made = node(context)
        values = ParameterSet(made, ALL)
        values.check = lambda changes: "not now" if changes.get("rate") == 3.0 else ""
        (refused,) = made.set_parameters([RosParameter("rate", value=3.0)])
        assert not refused.successful and refused.reason == "not now." and values["rate"] != 3.0
        (taken,) = made.set_parameters([RosParameter("rate", value=2.0)])
        assert taken.successful
        values.fix("rate")
        (refused,) = made.set_parameters([RosParameter("rate", value=4.0)])
        assert not refused.successful and "read-only" in refused.reason

    def test_what_does_not_apply_is_undeclared_and_its_value_stays_known(self, context: rclpy.Context) -> None:
        made = node(context, "-p", "mode:=slow")
        values = ParameterSet(made, ALL)
        for _ in range(2):
            values.undeclare("mode")
            assert not made.has_parameter("mode") and values["mode"] == "slow"

    def test_live_changes_are_taken_or_refused_with_a_reason(self, context: rclpy.Context) -> None:
        made = node(context)
        values = ParameterSet(made, ALL)
        (good,) = made.set_parameters([RosParameter("rate", value=4)])
        assert good.successful and values["rate"] == 4.0
        for name, value, words in [
            ("rate", 20.0, "range"),
            ("rate", 20, "between 0.5 and 10"),
            ("rate", "fast", "must be a number"),
            ("mode", "slow", "read-only"),
            ("place", [1.0], "3 numbers"),
        ]:
            (refused,) = made.set_parameters([RosParameter(name, value=value)])
            assert not refused.successful and words in refused.reason, refused.reason
        assert values["rate"] == 4.0 and values["mode"] == "fast"

    def test_a_refused_change_leaves_the_others_of_its_set_alone(self, context: rclpy.Context) -> None:
        made = node(context)
        values = ParameterSet(made, ALL)
        result = made.set_parameters_atomically([RosParameter("count", value=5), RosParameter("rate", value=99)])
        assert not result.successful and values["count"] == 3


def test_a_list_of_any_length_holds_elements_of_one_type() -> None:
    names, places = Parameter("names", (), "Who.", each=str), Parameter("places", (), "Where, m.", each=float)
    assert names.checked(["cf1", "cf2"]) == ("cf1", "cf2") and names.checked(()) == ()
    assert places.checked([1, 2.5]) == (1.0, 2.5)
    for parameter, value in ((names, "cf1"), (names, [1.0]), (places, ["x"]), (places, [math.nan]), (places, 1.0)):
        with pytest.raises(ValueError, match=f"{parameter.name}: .* is not allowed: must be"):
            parameter.checked(value)
