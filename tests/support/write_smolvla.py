"""Writes a small SmolVLA checkpoint as LeRobot 0.6 does, with weights that depend on no library's random numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

WIDTH, DENSE, HEADS, GROUPS, SIZE, LAYERS = 32, 64, 4, 2, 8, 2
SIDE, PATCH, SEEN, FACTOR = 32, 8, 16, 2
NARROW, STATE, ACTION = 24, 24, 8
VLM = "model.vlm_with_expert.vlm.model."

MERGES = (
    "t h",
    "th e",
    "Ġ the",
    "Ġ t",
    "Ġt o",
    "r e",
    "re d",
    "Ġ red",
    "p u",
    "s h",
    "pu sh",
    "Ġ b",
    "l e",
    "le f",
    "o c",
)
"""Pairs that the tokeniser joins, in this order; Ġ is a space."""


def write_tokeniser(folder: Path) -> list[str]:
    """Write a tokeniser of bytes as that of SmolVLM; return its tokens."""
    letters = [*"abcdefghijklmnopqrstuvwxyz", "Ġ", "Ċ"]
    tokens = [*letters, *("".join(pair.split()) for pair in MERGES)]
    split = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False}
    model |= {"continuing_subword_prefix": None, "end_of_word_suffix": None}
    model |= {"vocab": {token: k for k, token in enumerate(tokens)}, "merges": [pair.split() for pair in MERGES]}
    about = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None}
    about |= {"pre_tokenizer": split, "post_processor": None, "decoder": split, "model": model}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(about))
    return tokens


def write_smolvla(folder: Path, state: int, cameras: Sequence[str], actions: int, chunk: int = 6) -> None:
    """Write a checkpoint's folder: configuration, weights, processors with statistics, and ``vlm`` beside them."""
    tokens = write_tokeniser(folder / "vlm")
    seen = {"hidden_size": SEEN, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    seen |= {"image_size": SIDE, "patch_size": PATCH}
    said = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": DENSE, "num_hidden_layers": LAYERS + 1}
    said |= {"num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "head_dim": SIZE, "rms_norm_eps": 1e-5}
    model = {"model_type": "smolvlm", "vision_config": seen, "text_config": {**said, "vocab_size": len(tokens)}}
    (folder / "vlm" / "config.json").write_text(json.dumps({**model, "scale_factor": FACTOR}))
    images = {f"observation.images.{name}": {"type": "VISUAL", "shape": [3, 16, 16]} for name in cameras}
    config: dict[str, Any] = {
        "type": "smolvla",
        "input_features": {"observation.state": {"type": "STATE", "shape": [state]}, **images},
        "output_features": {"action": {"type": "ACTION", "shape": [actions]}},
        "vlm_model_name": str(folder / "vlm"),
        "normalization_mapping": {"VISUAL": "IDENTITY", "STATE": "MEAN_STD", "ACTION": "MEAN_STD"},
    }
    config |= {"chunk_size": chunk, "n_action_steps": chunk, "max_state_dim": STATE, "max_action_dim": ACTION}
    config |= {"resize_imgs_with_padding": [SIDE, SIDE], "num_steps": 2, "num_vlm_layers": LAYERS}
    config |= {"num_expert_layers": -1, "self_attn_every_n_layers": 2, "expert_width_multiplier": 0.75}
    config |= {"min_period": 0.004, "max_period": 4.0, "attention_mode": "cross_attn", "prefix_length": -1}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights(len(tokens)), folder / "model.safetensors")
    rng = np.random.default_rng(1)
    statistics = {}
    for name, size in (("observation.state", state), ("action", actions)):
        statistics[f"{name}.mean"] = rng.normal(0.0, 0.2, size).astype(np.float32)
        statistics[f"{name}.std"] = rng.uniform(0.5, 1.5, size).astype(np.float32)
    save_file(statistics, folder / "statistics.safetensors")
    about = {"eps": 1e-8, "norm_map": config["normalization_mapping"]}
    for file, names in (
        ("policy_preprocessor.json", ["smolvla_new_line_processor", "tokenizer_processor", "normalizer_processor"]),
        ("policy_postprocessor.json", ["unnormalizer_processor", "device_processor"]),
    ):
        steps = [{"registry_name": name, "config": about, "state_file": "statistics.safetensors"} for name in names]
        (folder / file).write_text(json.dumps({"name": file, "steps": steps}))


def weights(vocabulary: int) -> dict[str, NDArray[np.float32]]:
    """Return all tensors of the checkpoint by their published names."""
    rng = np.random.default_rng(0)
    made: dict[str, NDArray[np.float32]] = {}

    def dense(name: str, out: int, into: int, bias: bool = False) -> None:
        made[f"{name}.weight"] = rng.normal(0.0, 1.2 * into**-0.5, (out, into)).astype(np.float32)
        if bias:
            made[f"{name}.bias"] = rng.normal(0.0, 0.1, out).astype(np.float32)

    def norm(name: str, width: int, bias: bool = False) -> None:
        made[f"{name}.weight"] = rng.uniform(0.7, 1.3, width).astype(np.float32)
        if bias:
            made[f"{name}.bias"] = rng.normal(0.0, 0.1, width).astype(np.float32)

    eyes = f"{VLM}vision_model."
    patch = rng.normal(0.0, 0.1, (SEEN, 3, PATCH, PATCH)).astype(np.float32)
    made[f"{eyes}embeddings.patch_embedding.weight"] = patch
    made[f"{eyes}embeddings.patch_embedding.bias"] = rng.normal(0.0, 0.1, SEEN).astype(np.float32)
    places = rng.normal(0.0, 0.5, ((SIDE // PATCH) ** 2, SEEN)).astype(np.float32)
    made[f"{eyes}embeddings.position_embedding.weight"] = places
    for name in ("k", "v", "q", "out"):
        dense(f"{eyes}encoder.layers.0.self_attn.{name}_proj", SEEN, SEEN, bias=True)
    norm(f"{eyes}encoder.layers.0.layer_norm1", SEEN, bias=True)
    norm(f"{eyes}encoder.layers.0.layer_norm2", SEEN, bias=True)
    dense(f"{eyes}encoder.layers.0.mlp.fc1", 24, SEEN, bias=True)
    dense(f"{eyes}encoder.layers.0.mlp.fc2", SEEN, 24, bias=True)
    norm(f"{eyes}post_layernorm", SEEN, bias=True)
    dense(f"{VLM}connector.modality_projection.proj", WIDTH, SEEN * FACTOR**2)
    dense(f"{VLM}text_model.embed_tokens", vocabulary, WIDTH)
    for part, width, wide in (
        (f"{VLM}text_model.", WIDTH, DENSE),
        ("model.vlm_with_expert.lm_expert.", NARROW, 256),
    ):
        for k in range(LAYERS):
            layer = f"{part}layers.{k}."
            memory = GROUPS * SIZE if width == NARROW and k % 2 else width
            dense(f"{layer}self_attn.q_proj", HEADS * SIZE, width)
            dense(f"{layer}self_attn.k_proj", GROUPS * SIZE, memory)
            dense(f"{layer}self_attn.v_proj", GROUPS * SIZE, memory)
            dense(f"{layer}self_attn.o_proj", width, HEADS * SIZE)
            dense(f"{layer}mlp.gate_proj", wide, width)
            dense(f"{layer}mlp.up_proj", wide, width)
            dense(f"{layer}mlp.down_proj", width, wide)
            norm(f"{layer}input_layernorm", width)
            norm(f"{layer}post_attention_layernorm", width)
        norm(f"{part}norm", width)
    dense("model.vlm_with_expert.vlm.lm_head", vocabulary, WIDTH)
    dense("model.state_proj", WIDTH, STATE, bias=True)
    dense("model.action_in_proj", NARROW, ACTION, bias=True)
    dense("model.action_out_proj", ACTION, NARROW, bias=True)
    dense("model.action_time_mlp_in", NARROW, 2 * NARROW, bias=True)
    dense("model.action_time_mlp_out", NARROW, NARROW, bias=True)
    return made
