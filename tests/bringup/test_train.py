"""What flies after training: the bytes that were proven."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rlstack.bringup.node_process import Process, System
from rlstack.bringup.supervisor import Supervisor
from rlstack.bringup.train import train_system
from rlstack.bringup.verification_check import file_sha256
from rlstack.errors import UserError
from rlstack.policies import find_policy
from rlstack.robots import load_robot

PROVEN = find_policy("quadrotor_hover")


def flight(run: Path, **options: Any) -> System:
    """Return the last stage of a training run, and put a verified policy where training puts one."""
    system = train_system("quadrotor_hover", out=run, **options)
    assert system.then is not None
    then = system.then if options.get("force") else system.then.then
    assert then is not None and "policy_sha256" not in _policy(then)  # it is yet to be trained
    run.mkdir()
    shutil.copy(PROVEN, run / "policy.onnx")
    return then


def _policy(system: System) -> dict[str, object]:
    (policy,) = [process for process in system.processes if process.name == "policy"]
    return dict(policy.parameters)


def test_the_flight_after_training_takes_the_bytes_that_were_proven_and_no_others(tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text("/**/guard: {ros__parameters: {tilt_rad: 0.5}}")
    then = flight(tmp_path / "run", params_file=limits)
    with pytest.raises(UserError, match="has not been verified"):
        then.starting()
    shutil.copy(PROVEN.with_name("verify.json"), tmp_path / "run" / "verify.json")
    started = then.starting()
    assert _policy(started)["policy_sha256"] == started.policy_sha256 == file_sha256(PROVEN)
    known = load_robot("crazyflie").sha256
    assert [process.parameters["robot_sha256"] for process in started.processes[:3]] == [known] * 3
    assert {process.params_file for process in started.processes} == {str(limits)}
    with open(tmp_path / "run" / "policy.onnx", "ab") as file:
        file.write(b"\0")
    with pytest.raises(UserError):
        then.starting()


def test_a_flight_without_a_proof_takes_the_bytes_that_were_there_at_its_start(tmp_path: Path) -> None:
    started = flight(tmp_path / "run", force=True).starting()
    assert _policy(started)["policy_sha256"] == file_sha256(PROVEN)


def test_the_supervisor_starts_a_stage_as_it_is_described_then(tmp_path: Path) -> None:
    lines: list[str] = []

    def says(name: str, word: str, **more: Any) -> System:
        process = Process(name=name, module="timeit", arguments=("-n1", "-r1", f"print('{word}')"), **more)
        return System(name=name, processes=(process,))

    first = says("first", "one", when_it_ends="start the next stage")
    planned = System(name="then", processes=says("then", "planned").processes, at_start=lambda: says("then", "made"))
    Supervisor(System(name="s", processes=first.processes, then=planned), log=lines.append).run()
    assert "[then] made" in lines and "[then] planned" not in lines

    def refused() -> System:
        raise UserError("It has not been verified.")

    planned = System(name="then", processes=planned.processes, at_start=refused)
    supervisor = Supervisor(System(name="s", processes=first.processes, then=planned), log=lines.append)
    with pytest.raises(UserError, match="has not been verified"):
        supervisor.run()
    assert supervisor.alive() == [] and "[then] planned" not in lines


def test_a_goal_for_a_policy_that_goes_to_none_is_refused_before_training(tmp_path: Path) -> None:
    for recipe, more in (("table_push", ", and say with the instruction what it is to do"), ("base_racing", "")):
        with pytest.raises(UserError) as refused:
            train_system(recipe, out=tmp_path / "run", goal=(0.2, 0.0, 0.1))
        assert str(refused.value) == f"The policy of the recipe {recipe} goes to no goal: leave the goal out{more}."
