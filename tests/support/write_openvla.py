"""Writes a small OpenVLA checkpoint by its published names, with weights that depend on no library's random numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

WIDTH, DENSE, HEADS, LAYERS, PADDED = 32, 48, 4, 2, 384
SIDE, PATCH, EYE, DEPTH = 16, 4, 32, 2
MERGES = (
    "t h",
    "th e",
    "▁ the",
    "▁ t",
    "▁t o",
    "r e",
    "re d",
    "▁ red",
    "p u",
    "s h",
    "pu sh",
    "▁ b",
    "l e",
    "le f",
    "o c",
)
"""Pairs that the tokeniser joins, in this order; ▁ is a space."""


def write_openvla(folder: Path, axes: int) -> None:
    """Write a checkpoint's folder: configuration with statistics, tokeniser, processor, and weights in two files."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = [*"abcdefghijklmnopqrstuvwxyz", *"IWO:?", "▁", "<0x0A>"]
    tokens = ["<unk>", "<s>", "</s>", *letters, *("".join(pair.split()) for pair in MERGES)]
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    model |= {"continuing_subword_prefix": None, "end_of_word_suffix": None, "ignore_merges": False}
    model |= {"vocab": {token: k for k, token in enumerate(tokens)}, "merges": [pair.split() for pair in MERGES]}
    spaces = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    after = {"type": "TemplateProcessing", "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [begin]}
    after |= {"special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    own = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": k, "content": token, **own} for k, token in enumerate(tokens[:3])]
    about = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "pre_tokenizer": None}
    about |= {"normalizer": {"type": "Sequence", "normalizers": spaces}, "post_processor": after, "decoder": None}
    (folder / "tokenizer.json").write_text(json.dumps({**about, "model": model}))
    colours = {"means": [[0.48, 0.46, 0.41], [0.5, 0.5, 0.5]], "stds": [[0.23, 0.22, 0.22], [0.5, 0.5, 0.5]]}
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_resize_strategy": "resize-naive", **colours}))
    moved = {"q01": [-0.5] * axes, "q99": [1.5] * axes, "mask": [True] * (axes - 1) + [False]}
    text = {"model_type": "llama", "vocab_size": PADDED, "num_attention_heads": HEADS}
    config: dict[str, Any] = {"model_type": "openvla", "text_config": text, "pad_to_multiple_of": 64}
    (folder / "config.json").write_text(json.dumps({**config, "norm_stats": {"table": {"action": moved}}}))
    made = weights()
    files = {name: f"model-0000{1 + (k % 2)}-of-00002.safetensors" for k, name in enumerate(made)}
    for file in set(files.values()):
        save_file({name: made[name] for name in made if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))


def weights() -> dict[str, NDArray[np.float32]]:
    """Return all tensors of the checkpoint by their published names."""
    rng = np.random.default_rng(0)
    made: dict[str, NDArray[np.float32]] = {}

    def put(name: str, shape: tuple[int, ...], scale: float) -> None:
        made[name] = rng.normal(0.0, scale, shape).astype(np.float32)

    def dense(name: str, out: int, into: int, bias: bool = True) -> None:
        put(f"{name}.weight", (out, into), 1.2 * into**-0.5)
        if bias:
            put(f"{name}.bias", (out,), 0.1)

    def norm(name: str, width: int, bias: bool = True) -> None:
        made[f"{name}.weight"] = rng.uniform(0.7, 1.3, width).astype(np.float32)
        if bias:
            put(f"{name}.bias", (width,), 0.1)

    for eye, first in (("featurizer", True), ("fused_featurizer", False)):
        name = f"vision_backbone.{eye}."
        if first:
            put(f"{name}cls_token", (1, 1, EYE), 0.5)
            put(f"{name}reg_token", (1, 4, EYE), 0.5)
        put(f"{name}pos_embed", (1, (SIDE // PATCH) ** 2, EYE), 0.5)
        put(f"{name}patch_embed.proj.weight", (EYE, 3, PATCH, PATCH), 0.15)
        put(f"{name}patch_embed.proj.bias", (EYE,), 0.1)
        for k in range(DEPTH):
            block = f"{name}blocks.{k}."
            norm(f"{block}norm1", EYE)
            dense(f"{block}attn.qkv", 3 * EYE, EYE)
            dense(f"{block}attn.proj", EYE, EYE)
            norm(f"{block}norm2", EYE)
            dense(f"{block}mlp.fc1", 2 * EYE, EYE)
            dense(f"{block}mlp.fc2", EYE, 2 * EYE)
            if first:
                put(f"{block}ls1.scale_factor", (EYE,), 0.5)
                put(f"{block}ls2.scale_factor", (EYE,), 0.5)
        norm(f"{name}norm", EYE)
        if not first:
            put(f"{name}attn_pool.latent", (1, 1, EYE), 0.5)
    for layer, out, into in (("fc1", 4 * 2 * EYE, 2 * EYE), ("fc2", WIDTH, 4 * 2 * EYE), ("fc3", WIDTH, WIDTH)):
        dense(f"projector.{layer}", out, into)
    put("language_model.model.embed_tokens.weight", (PADDED, WIDTH), 0.7)
    for k in range(LAYERS):
        layer = f"language_model.model.layers.{k}."
        for part in ("q", "k", "v", "o"):
            dense(f"{layer}self_attn.{part}_proj", WIDTH, WIDTH, bias=False)
        dense(f"{layer}mlp.gate_proj", DENSE, WIDTH, bias=False)
        dense(f"{layer}mlp.up_proj", DENSE, WIDTH, bias=False)
        dense(f"{layer}mlp.down_proj", WIDTH, DENSE, bias=False)
        norm(f"{layer}input_layernorm", WIDTH, bias=False)
        norm(f"{layer}post_attention_layernorm", WIDTH, bias=False)
    norm("language_model.model.norm", WIDTH, bias=False)
    dense("language_model.lm_head", PADDED, WIDTH, bias=False)
    return made
