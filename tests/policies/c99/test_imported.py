"""Recurrent policies of other libraries, imported and written as C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from rlstack.cli import main
from rlstack.policies.c99 import write_c99

from ...support.compiled_policy import CompiledPolicy, needs_compiler
from ...support.imported import SIZE, mapping
from ...support.policy_flights import fly


@needs_compiler
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_an_imported_recurrent_policy_as_c_gives_the_commands_of_onnxruntime(
    kind: type[nn.GRU] | type[nn.LSTM], tmp_path: Path
) -> None:
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(16, 24), nn.ELU(), nn.Linear(24, 4))
    weights = {f"mlp.{name}": value for name, value in layers.state_dict().items()}
    weights |= {f"rnn.rnn.{name}": value for name, value in kind(SIZE, 16, 2).state_dict().items()}
    torch.save({"actor_state_dict": weights}, tmp_path / "model.pt")
    out, chosen = tmp_path / "policy.onnx", mapping(tmp_path)
    words = ["--from", "rsl_rl", str(tmp_path / "model.pt"), "--map", str(chosen), "--robot", "crazyflie"]
    assert main(["import", *words, "--out", str(out)]) == 0
    flight = fly(out, robot=None, sizes={})
    assert (np.std(flight.commands, axis=0) / flight.range > 1e-3).all()
    compiled = CompiledPolicy(write_c99(out, tmp_path), flight.contract, ("-O0",))
    assert flight.error(compiled.flown(flight)) < 1e-5
