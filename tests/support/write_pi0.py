"""Writes a small pi0 checkpoint as LeRobot 0.6 does, with weights that depend on no library's random numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tests.support.write_smolvla import write_tokeniser

WIDTH, DENSE, HEADS, SIZE, LAYERS = 24, 40, 8, 4, 2
NARROW, NARROW_DENSE, STATE, ACTION = 16, 28, 24, 8
SIDE, PATCH, SEEN, SEEN_DENSE = 32, 16, 32, 24
BOTH = "model.paligemma_with_expert."


def write_pi0(folder: Path, state: int, cameras: Sequence[str], actions: int, chunk: int = 6, steps: int = 10) -> None:
    """Write a checkpoint's folder: configuration, weights, processors with statistics, and a tokeniser in ``vlm``."""
    tokens = write_tokeniser(folder / "vlm")
    images = {f"observation.images.{name}": {"type": "VISUAL", "shape": [3, 16, 16]} for name in cameras}
    config: dict[str, Any] = {
        "type": "pi0",
        "input_features": {"observation.state": {"type": "STATE", "shape": [state]}, **images},
        "output_features": {"action": {"type": "ACTION", "shape": [actions]}},
        "normalization_mapping": {"VISUAL": "IDENTITY", "STATE": "MEAN_STD", "ACTION": "MEAN_STD"},
        "paligemma_variant": "gemma_2b",
        "action_expert_variant": "gemma_300m",
    }
    config |= {"chunk_size": chunk, "n_action_steps": chunk, "max_state_dim": STATE, "max_action_dim": ACTION}
    config |= {"image_resolution": [SIDE, SIDE], "num_inference_steps": steps, "empty_cameras": 0}
    config |= {"min_period": 0.004, "max_period": 4.0, "use_relative_actions": False}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights(len(tokens)), folder / "model.safetensors")
    rng = np.random.default_rng(1)
    statistics = {}
    for name, size in (("observation.state", state), ("action", actions)):
        statistics[f"{name}.mean"] = rng.normal(0.0, 0.2, size).astype(np.float32)
        statistics[f"{name}.std"] = rng.uniform(0.5, 1.5, size).astype(np.float32)
    save_file(statistics, folder / "statistics.safetensors")
    about = {"eps": 1e-8, "norm_map": config["normalization_mapping"]}
    before = ["rename_observations_processor", "to_batch_processor", "pi0_new_line_processor", "tokenizer_processor"]
    for file, names in (
        ("policy_preprocessor.json", [*before, "relative_actions_processor", "normalizer_processor"]),
        ("policy_postprocessor.json", ["unnormalizer_processor", "absolute_actions_processor", "device_processor"]),
    ):
        made = [{"registry_name": name, "config": about, "state_file": "statistics.safetensors"} for name in names]
        (folder / file).write_text(json.dumps({"name": file, "steps": made}))


def weights(vocabulary: int) -> dict[str, NDArray[np.float32]]:
    """Return all tensors of the checkpoint by their published names; words are held by the layer of answers."""
    rng = np.random.default_rng(0)
    made: dict[str, NDArray[np.float32]] = {}

    def dense(name: str, out: int, into: int, bias: bool = False) -> None:
        made[f"{name}.weight"] = rng.normal(0.0, 1.2 * into**-0.5, (out, into)).astype(np.float32)
        if bias:
            made[f"{name}.bias"] = rng.normal(0.0, 0.1, out).astype(np.float32)

    def norm(name: str, width: int, bias: bool = False) -> None:
        # Gemma's are added to 1
        low, high = (0.7, 1.3) if bias else (-0.3, 0.3)
        made[f"{name}.weight"] = rng.uniform(low, high, width).astype(np.float32)
        if bias:
            made[f"{name}.bias"] = rng.normal(0.0, 0.1, width).astype(np.float32)

    eyes = f"{BOTH}paligemma.model.vision_tower.vision_model."
    made[f"{eyes}embeddings.patch_embedding.weight"] = rng.normal(0.0, 0.1, (SEEN, 3, PATCH, PATCH)).astype(np.float32)
    made[f"{eyes}embeddings.patch_embedding.bias"] = rng.normal(0.0, 0.1, SEEN).astype(np.float32)
    places = rng.normal(0.0, 0.5, ((SIDE // PATCH) ** 2, SEEN)).astype(np.float32)
    made[f"{eyes}embeddings.position_embedding.weight"] = places
    for name in ("k", "v", "q", "out"):
        dense(f"{eyes}encoder.layers.0.self_attn.{name}_proj", SEEN, SEEN, bias=True)
    norm(f"{eyes}encoder.layers.0.layer_norm1", SEEN, bias=True)
    norm(f"{eyes}encoder.layers.0.layer_norm2", SEEN, bias=True)
    dense(f"{eyes}encoder.layers.0.mlp.fc1", SEEN_DENSE, SEEN, bias=True)
    dense(f"{eyes}encoder.layers.0.mlp.fc2", SEEN, SEEN_DENSE, bias=True)
    norm(f"{eyes}post_layernorm", SEEN, bias=True)
    dense(f"{BOTH}paligemma.model.multi_modal_projector.linear", WIDTH, SEEN, bias=True)
    dense(f"{BOTH}paligemma.lm_head", vocabulary, WIDTH)
    for part, width, wide in (
        (f"{BOTH}paligemma.model.language_model.", WIDTH, DENSE),
        (f"{BOTH}gemma_expert.model.", NARROW, NARROW_DENSE),
    ):
        for k in range(LAYERS):
            layer = f"{part}layers.{k}."
            dense(f"{layer}self_attn.q_proj", HEADS * SIZE, width)
            dense(f"{layer}self_attn.k_proj", SIZE, width)
            dense(f"{layer}self_attn.v_proj", SIZE, width)
            dense(f"{layer}self_attn.o_proj", width, HEADS * SIZE)
            dense(f"{layer}mlp.gate_proj", wide, width)
            dense(f"{layer}mlp.up_proj", wide, width)
            dense(f"{layer}mlp.down_proj", width, wide)
            norm(f"{layer}input_layernorm", width)
            norm(f"{layer}post_attention_layernorm", width)
        norm(f"{part}norm", width)
    dense(f"{BOTH}gemma_expert.lm_head", vocabulary, NARROW)
    dense("model.state_proj", NARROW, STATE, bias=True)
    dense("model.action_in_proj", NARROW, ACTION, bias=True)
    dense("model.action_out_proj", ACTION, NARROW, bias=True)
    dense("model.action_time_mlp_in", NARROW, 2 * NARROW, bias=True)
    dense("model.action_time_mlp_out", NARROW, NARROW, bias=True)
    return made
