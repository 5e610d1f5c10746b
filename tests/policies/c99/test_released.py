"""Released policies as C: the same commands as onnxruntime's over 1,000 steps, compiled without a warning."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.policies import load_policy
from rlstack.policies.c99 import write_c99
from rlstack.robots import load_robot

from ...support.compiled_policy import COMPILERS, CompiledPolicy, needs_compiler
from ...support.cortex_m4 import needs_cortex_m4, run_on_cortex_m4
from ...support.policy_flights import RELEASED, Flight, choices, fly

TOLERANCE = 1e-5
"""Of a command's range."""


@cache
def flown(name: str) -> Flight:
    """Return a flight on which every command moves."""
    flight = fly(name, **choices(name))
    assert (np.std(flight.commands, axis=0) / flight.range > 1e-3).all(), "the comparison would say nothing"
    return flight


@needs_compiler
@pytest.mark.parametrize("name", RELEASED)
def test_a_released_policy_as_c_gives_the_commands_of_onnxruntime(name: str, tmp_path: Path) -> None:
    flight = flown(name)
    written = write_c99(name, tmp_path, **choices(name))
    for compiler in COMPILERS:
        compiled = CompiledPolicy(written, flight.contract, ("-O0",), compiler)
        assert flight.error(compiled.flown(flight)) < TOLERANCE, compiler.name


@needs_compiler
def test_every_compiler_and_optimisation_gives_the_same_bits(tmp_path: Path) -> None:
    flight = flown("quadrotor_hover")
    written = write_c99("quadrotor_hover", tmp_path)
    fused = ("-O2", "-march=native", "-std=gnu11")  # GCC and clang would fuse products and sums here
    plain = CompiledPolicy(written, flight.contract, ("-O0",)).flown(flight)
    for compiler in COMPILERS:
        assert np.array_equal(CompiledPolicy(written, flight.contract, fused, compiler).flown(flight), plain)


@needs_cortex_m4
@pytest.mark.parametrize("name", ["base_navigation", "quadrotor_foundation"])
def test_a_policy_with_recurrence_gives_them_on_a_cortex_m4(name: str, tmp_path: Path) -> None:
    run = run_on_cortex_m4(write_c99(name, tmp_path, **choices(name)), flown(name))
    assert (run.statuses == 0).all()
    assert flown(name).error(run.commands) < TOLERANCE


@needs_compiler
def test_a_bad_input_changes_neither_command_nor_state(tmp_path: Path) -> None:
    policy = load_policy("quadrotor_rates")
    compiled = CompiledPolicy(write_c99("quadrotor_rates", tmp_path), policy.contract, ("-O0",))
    _, good = next(fly("quadrotor_rates", robot=None, sizes={}, steps=2).steps())
    before, command = compiled.step(good), np.full(4, 7.0, np.float32)
    kept = compiled.state.copy()
    for wrong in ({"position": [np.nan, 0, 0]}, {"goal_position": [0, np.inf, 0]}, {"orientation": [0, 0, 0, 0]}):
        assert compiled.call({**good, **wrong}, command) == 1
    assert (command == 7.0).all() and (compiled.state == kept).all() and before.any()


def test_a_named_size_has_to_be_fixed_and_a_family_needs_a_robot(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="say for which robot with --robot"):
        write_c99("quadrotor_foundation", tmp_path)
    with pytest.raises(UserError, match="--size points=4"):
        write_c99("quadrotor_foundation", tmp_path, robot=load_robot("crazyflie"))
