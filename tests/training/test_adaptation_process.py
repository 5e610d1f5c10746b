"""The processes in which a policy is adapted: that they end, and what is said when they do."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.training.adaptation_messages import Adapt, Origin
from rlstack.training.adaptation_process import AdaptationProcess
from rlstack.training.proof_process import ProofProcess


def test_a_process_that_dies_is_told_with_where_its_words_are_and_leaves_nothing(tmp_path: Path) -> None:
    process = AdaptationProcess(Origin("policy.onnx", "", "crazyflie"), tmp_path / "out")
    try:
        running = process._linked.process
        running.kill()
        running.wait()
        process.ask(Adapt(None, 1))  # type: ignore[arg-type]  # nobody reads it
        with pytest.raises(UserError, match=r"adapts exited unexpectedly: .* See .*out/adaptation\.txt"):
            process.answer()
    finally:
        process.close()
    assert running.returncode == -signal.SIGKILL


def test_a_proof_that_is_not_flown_elsewhere_is_told(tmp_path: Path) -> None:
    beside = ProofProcess(tmp_path)
    try:
        os.kill(beside._linked.process.pid, signal.SIGKILL)
        with pytest.raises(UserError, match=r"proves meanwhile exited unexpectedly: .* See .*proof\.txt"):
            beside.figures()
    finally:
        beside._linked.end()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"out: the folder .*file/out cannot be made: Not a directory"):
        AdaptationProcess(Origin("policy.onnx", "", "crazyflie"), tmp_path / "file" / "out")
