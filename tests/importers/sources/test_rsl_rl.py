"""Actors of rsl_rl, made and saved by rsl_rl, become policy files that answer as they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.imported import SIZE, fly


@pytest.mark.parametrize("kind", ["mlp", "gru", "lstm"])
def test_a_checkpoint_of_rsl_rl(tmp_path: Path, kind: str) -> None:
    models = pytest.importorskip("rsl_rl.models")
    from tensordict import TensorDict

    torch.manual_seed(0)
    example = TensorDict({"policy": torch.zeros(1, SIZE)}, batch_size=[1])
    settings: dict[str, Any] = {"hidden_dims": [32, 16], "activation": "elu", "obs_normalization": True}
    if kind == "mlp":
        actor = models.MLPModel(example, {"actor": ["policy"]}, "actor", 4, **settings)
    else:
        settings |= {"rnn_type": kind, "rnn_hidden_dim": 24, "rnn_num_layers": 2}
        actor = models.RNNModel(example, {"actor": ["policy"]}, "actor", 4, **settings)
    actor.update_normalization(TensorDict({"policy": torch.randn(500, SIZE) * 2 + 1}, batch_size=[500]))
    actor.eval()
    torch.save({"actor_state_dict": actor.state_dict(), "iter": 1, "infos": None}, tmp_path / "model.pt")

    def own(observation: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            given = TensorDict({"policy": torch.tensor(observation[None], dtype=torch.float32)}, batch_size=[1])
            return actor(given)[0].numpy().astype(float)

    fly(tmp_path, "rsl_rl", tmp_path / "model.pt", own)
