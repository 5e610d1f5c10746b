"""Write tests/importers/sources/lerobot_act, in an environment with LeRobot: python write_lerobot_act.py FOLDER."""

from __future__ import annotations

import sys
from importlib import import_module

import numpy as np
import torch


def main(folder: str) -> None:
    """Write a small policy with random weights, and 40 steps of its answers."""
    configs, config_module, model_module, processors = (
        import_module(f"lerobot.{name}")
        for name in ("configs.types", *(f"policies.act.{n}_act" for n in ("configuration", "modeling", "processor")))
    )
    torch.manual_seed(0)
    feature, kinds = configs.PolicyFeature, configs.FeatureType
    state, world = "observation.state", "observation.environment_state"
    config = config_module.ACTConfig(
        input_features={state: feature(kinds.STATE, (6,)), world: feature(kinds.ENV, (3,))},
        output_features={"action": feature(kinds.ACTION, (6,))},
        chunk_size=8,
        n_action_steps=5,
        dim_model=16,
        n_heads=2,
        dim_feedforward=24,
        n_encoder_layers=2,
        n_decoder_layers=1,
        latent_dim=4,
        n_vae_encoder_layers=1,
        device="cpu",
    )
    policy = model_module.ACTPolicy(config).eval()
    statistics = {
        name: {"mean": torch.randn(n), "std": torch.rand(n) + 0.5, "min": -torch.ones(n), "max": torch.ones(n)}
        for name, n in ((state, 6), (world, 3), ("action", 6))
    }
    before, after = processors.make_act_pre_post_processors(config, statistics)
    for part in (policy, before, after):
        part.save_pretrained(folder)
    policy.reset()
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(40, 9)).astype(np.float32)
    actions = []
    for row in torch.tensor(observations):
        with torch.inference_mode():
            actions.append(after(policy.select_action(before({state: row[:6], world: row[6:]})))[0].numpy())
    np.savez(f"{folder}/recorded.npz", observation=observations, action=np.array(actions))


if __name__ == "__main__":
    main(sys.argv[1])
