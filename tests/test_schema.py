"""Strict loading: what is accepted, what is refused and in which words."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlstack import schema
from rlstack.errors import UserError
from rlstack.schema import Removed, value


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth_m: float = value(1.0, unit="m", above=0.0)

    def __post_init__(self) -> None:
        if self.depth_m == 13.0:
            raise ValueError("depth_m: 13.0 is not allowed: unlucky.")


@dataclass(frozen=True, kw_only=True)
class Deep:
    inner: Inner = value(lambda: Inner(depth_m=2.0))
    far_m: float = value(5.0, unit="m")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    count: int = value(3, at_least=1, at_most=10)
    rate_hz: float = value(100.0, unit="Hz", above=0.0)
    mode: Literal["fast", "slow"] = "fast"
    device: str = value("cpu", one_of=("cpu", "cuda"))
    on: bool = True
    pair: tuple[float, float] = value((0.0, 1.0), unit="s", at_least=0.0)
    many: tuple[int, ...] = ()
    nested: tuple[tuple[float, float], ...] = value((), at_least=0.0)
    inner: Inner = value(Inner)
    deep: Deep = value(lambda: Deep(inner=Inner(depth_m=3.0), far_m=6.0))
    inners: tuple[Inner, ...] = ()
    by_name: dict[str, float] = dataclasses.field(default_factory=dict)
    maybe: int | None = None
    either: float | str = 1.0
    anything: Any = None


def refused(**data: Any) -> str:
    with pytest.raises(UserError) as caught:
        schema.load(Outer, {"name": "n", **data}, "file.yaml")
    message = str(caught.value)
    assert message.startswith("file.yaml: ")
    return message.removeprefix("file.yaml: ")


def test_defaults_and_every_kind_of_value_load() -> None:
    data = {
        "name": "n",
        "count": 4,
        "rate_hz": 50,
        "mode": "slow",
        "device": "cuda",
        "on": False,
        "pair": [0.5, 2],
        "many": [1, 2, 3],
        "nested": [[0, 1], [2, 3]],
        "inner": {"depth_m": 2.0},
        "inners": [{}, {"depth_m": 3.0}],
        "by_name": {"a": 1},
        "maybe": 5,
        "either": "text",
        "anything": {"x": [1]},
    }
    loaded = schema.load(Outer, data, "f")
    assert loaded == Outer(
        name="n",
        count=4,
        rate_hz=50.0,
        mode="slow",
        device="cuda",
        on=False,
        pair=(0.5, 2.0),
        many=(1, 2, 3),
        nested=((0.0, 1.0), (2.0, 3.0)),
        inner=Inner(depth_m=2.0),
        inners=(Inner(), Inner(depth_m=3.0)),
        by_name={"a": 1.0},
        maybe=5,
        either="text",
        anything={"x": [1]},
    )
    assert isinstance(loaded.rate_hz, float)
    assert schema.load(Outer, {"name": "n", "maybe": None}, "f") == Outer(name="n")


@pytest.mark.parametrize("given", [{}, {"far_m": 7.0}, {"inner": {}}, {"inner": {"depth_m": 4.0}}])
def test_what_a_nested_mapping_omits_is_as_in_its_fields_default(given: dict[str, Any]) -> None:
    loaded = schema.load(Outer, {"name": "n", "deep": given}, "file.yaml").deep
    assert loaded.far_m == given.get("far_m", 6.0)
    assert loaded.inner.depth_m == given.get("inner", {}).get("depth_m", 3.0)


def test_numbers_that_yaml_reads_as_text_are_numbers() -> None:
    assert schema.load(Outer, {"name": "n", "rate_hz": "3e-4"}, "f").rate_hz == 3e-4
    assert schema.load(Outer, {"name": "n", "count": 4.0}, "f").count == 4


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"rate_hzz": 1.0}, ["'rate_hzz'", "Nearest: rate_hz"]),
        ({"inner": {"deepth_m": 1.0}}, ["'inner.deepth_m'", "Nearest: inner.depth_m"]),
        ({"count": 0}, ["count: 0 is not allowed: must be at least 1."]),
        ({"count": 11}, ["count: 11 is not allowed: must be at most 10."]),
        ({"count": 2.5}, ["count: 2.5", "must be a whole number"]),
        ({"count": True}, ["count: True", "must be a whole number"]),
        ({"count": "4"}, ["count: '4'", "must be a whole number"]),
        ({"rate_hz": 0.0}, ["rate_hz: 0.0 is not allowed: must be above 0.0 Hz."]),
        ({"rate_hz": math.nan}, ["rate_hz: nan", "must be a finite number"]),
        ({"rate_hz": "inf"}, ["rate_hz: inf", "must be a finite number"]),
        ({"rate_hz": None}, ["rate_hz: None", "must be a number"]),
        ({"mode": "medium"}, ["mode: 'medium' is not allowed: one of fast, slow."]),
        ({"device": "tpu"}, ["device: 'tpu' is not allowed: one of cpu, cuda."]),
        ({"on": 1}, ["on: 1", "must be true or false"]),
        ({"name": 3}, ["name: 3", "must be text"]),
        ({"pair": [1.0]}, ["pair: [1.0]", "must be a list of 2"]),
        ({"pair": [1.0, -1.0]}, ["pair: -1.0 is not allowed: must be at least 0.0 s."]),
        ({"pair": "ab"}, ["pair: 'ab'", "must be a list"]),
        ({"many": [1, "x"]}, ["many[1]: 'x'", "must be a whole number"]),
        ({"nested": [[0.0, -2.0]]}, ["nested: -2.0", "must be at least 0.0"]),
        ({"inner": 5}, ["inner must be a mapping of keys to values, not 5"]),
        ({"inners": [{}, {"depth_m": -1.0}]}, ["inners[1].depth_m: -1.0", "above 0.0 m"]),
        ({"inner": {"depth_m": 13.0}}, ["inner: depth_m: 13.0", "unlucky"]),
        ({"by_name": {"a": "x"}}, ["by_name.a: 'x'", "must be a number"]),
        ({"by_name": [1]}, ["by_name: [1]", "must be a mapping"]),
        ({"maybe": "x"}, ["maybe: 'x'", "must be a whole number"]),
        ({"name": ["x" * 100]}, ["..."]),
    ],
)
def test_what_is_not_allowed_is_refused_with_key_value_and_what_is(data: dict[str, Any], said: list[str]) -> None:
    message = refused(**data)
    for part in said:
        assert part in message


def test_a_key_that_was_removed_is_left_out_with_its_former_default_and_refused_otherwise() -> None:
    @dataclass(frozen=True)
    class Fewer:
        removed_keys: ClassVar[dict[str, Removed]] = {"twice": Removed(False, "set count to 2")}
        count: int = 1

    assert schema.load(Fewer, {"twice": False, "count": 3}, "f") == Fewer(3)
    with pytest.raises(UserError, match=r"^f: twice: True is not allowed any more: set count to 2\.$"):
        schema.load(Fewer, {"twice": True}, "f")


def test_a_missing_key_and_a_wrong_top_are_refused() -> None:
    with pytest.raises(UserError, match=r"^f: the key 'name' is missing\.$"):
        schema.load(Outer, {}, "f")
    with pytest.raises(UserError, match=r"^f: the file must be a mapping of keys to values, not \[\]\.$"):
        schema.load(Outer, [], "f")


def test_check_refuses_an_instance_that_was_changed_out_of_range() -> None:
    schema.check(Outer(name="n"), "options")
    with pytest.raises(UserError, match="options: count: 99 is not allowed: must be at most 10"):
        schema.check(dataclasses.replace(Outer(name="n"), count=99), "options")


finite = st.floats(allow_nan=False, allow_infinity=False)
natural = st.floats(0.0, 1e300)
seconds = st.just(0.0) | st.floats(1e-15, 1e12)

outers = st.builds(
    Outer,
    name=st.text(),
    count=st.integers(1, 10),
    rate_hz=st.floats(1e-15, 1e5),
    mode=st.sampled_from(["fast", "slow"]),
    device=st.sampled_from(["cpu", "cuda"]),
    on=st.booleans(),
    pair=st.tuples(seconds, seconds),
    many=st.lists(st.integers(-(2**53), 2**53)).map(tuple),
    nested=st.lists(st.tuples(natural, natural)).map(tuple),
    inner=st.builds(Inner, depth_m=st.floats(0.1, 12.0)),
    inners=st.lists(st.builds(Inner, depth_m=st.floats(0.1, 12.0)), max_size=3).map(tuple),
    by_name=st.dictionaries(st.text(), finite),
    maybe=st.none() | st.integers(-(2**53), 2**53),
    either=finite,
)


@given(st.sampled_from([1.0, -1.0]), st.floats(1e7, 1e308) | st.just(1e308) | st.floats(5e-324, 1e-16))
def test_a_number_with_a_unit_is_one_of_this_world(sign: float, number: float) -> None:
    assert "rate_hz" in refused(rate_hz=sign * number) and "must be" in refused(rate_hz=sign * number)
    assert "depth_m" in refused(inner={"depth_m": sign * number})
    assert schema.load(Outer, {"name": "n", "either": sign * number}, "f").either == sign * number  # it has no unit


def test_the_bounds_of_a_unit_are_said() -> None:
    assert refused(rate_hz=1e308) == "rate_hz: 1e+308 is not allowed: must be within 100000 Hz."
    assert refused(rate_hz=5e-324) == "rate_hz: 5e-324 is not allowed: must be 0 or at least 1e-15 Hz."
    assert refused(pair=[0.0, 1e13]) == "pair: 10000000000000.0 is not allowed: must be within 1e+12 s."


@settings(deadline=None)
@given(outers)
def test_to_data_and_load_undo_each_other(outer: Outer) -> None:
    assert schema.load(Outer, schema.to_data(outer), "f") == outer


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["name", "count", "inner", "pair", "x"]), inner)
        ),
    )
)
def test_whatever_is_given_the_answer_is_an_instance_or_a_user_error(data: Any) -> None:
    try:
        assert isinstance(schema.load(Outer, data, "f"), Outer)
    except UserError as error:
        assert str(error).startswith("f: ")


@pytest.mark.parametrize("key", ["mass_kg", "count"])
def test_a_whole_number_beyond_what_a_float_holds_is_no_crash(key: str) -> None:
    @dataclass(frozen=True)
    class Numbers:
        mass_kg: float = 1.0
        count: int = 1

    with pytest.raises(UserError, match=rf"f: {key}: 1000+\.\.\. is not allowed: must be a finite number"):
        schema.load(Numbers, {key: 10**400}, "f")
