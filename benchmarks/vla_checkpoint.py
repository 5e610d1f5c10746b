"""Time and memory of a SmolVLA of the published size with random weights: loading, a step of adapters, a plan, a graph.

python benchmarks/vla_checkpoint.py [--frozen int8] [--folder FOLDER]: JSON lines; FOLDER keeps the weights (0.9 GB).
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.write_smolvla import write_tokeniser

from rlstack.interfaces.instruction import encoded
from rlstack.tasks.core.onnx_tracing import trace_to_onnx
from rlstack.training.language.actor import LanguageActor, Layout, PolicySettings
from rlstack.training.language.checkpoints.opening import CheckpointSettings
from rlstack.training.language.checkpoints.pieces import read_pieces
from rlstack.training.language.checkpoints.smolvla import SmolVLAHead, SmolVLANetwork, read_sizes

WORDS = ("block", "left", "push", "red", "the", "to")
IMAGES, STATE, AXES, CHUNK, BATCH = (1, 84, 84, 3), 14, 3, 4, 2
SEEN = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
SAID = {"hidden_size": 960, "intermediate_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 15}
SAID |= {"num_key_value_heads": 5, "head_dim": 64, "rms_norm_eps": 1e-5, "vocab_size": 49280}
MODEL = {"vision_config": {**SEEN, "image_size": 512, "patch_size": 16}, "text_config": SAID, "scale_factor": 4}
CONFIG = {"type": "smolvla", "vlm_model_name": "vlm", "num_vlm_layers": 16, "num_expert_layers": -1, "chunk_size": 50}
CONFIG |= {"self_attn_every_n_layers": 2, "expert_width_multiplier": 0.75, "max_state_dim": 32, "max_action_dim": 32}
CONFIG |= {"num_steps": 10, "min_period": 0.004, "max_period": 4.0, "resize_imgs_with_padding": [512, 512]}


def write(folder: Path) -> int:
    """Write a checkpoint with random weights in bfloat16; return the number of parameters."""
    write_tokeniser(folder / "vlm")
    (folder / "vlm" / "config.json").write_text(json.dumps(MODEL))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    sizes = read_sizes(CONFIG, MODEL, "published")
    network = SmolVLANetwork(sizes, STATE, IMAGES, read_pieces(folder / "vlm", WORDS)[0])
    parts = {**network.parts(), **SmolVLAHead(sizes, AXES, CHUNK).parts()}
    shapes = {prefix + name: one.shape for prefix, part in parts.items() for name, one in part.state_dict().items()}
    made = {
        name: 0.02 * torch.randn(shape, dtype=torch.bfloat16) if len(shape) > 1 else torch.ones(shape).bfloat16()
        for name, shape in shapes.items()
    }
    save_file(made, folder / "model.safetensors")
    return sum(shape.numel() for shape in shapes.values())


class Planner(nn.Module):
    """From an observation and noise to a plan."""

    def __init__(self, actor: LanguageActor) -> None:
        super().__init__()
        self.actor = actor

    def forward(self, observation: Tensor, noise: Tensor) -> Tensor:
        """Return actions (batch, chunk, axes)."""
        planned: Tensor = self.actor.head(self.actor.features(self.actor.seen(observation)), noise)
        return planned


class Clock:
    """Prints the CPU time and the wall time of each part, and the most memory so far."""

    def __init__(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def lap(self, part: str, **figures: Any) -> None:
        """Print a line, and begin the next part."""
        cpu, wall = time.process_time(), time.perf_counter()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        took = {"cpu_s": round(cpu - self.cpu, 2), "wall_s": round(wall - self.wall, 2), "most_gib": round(most, 2)}
        print(json.dumps({"part": part, **took, **figures}), flush=True)
        self.cpu, self.wall = time.process_time(), time.perf_counter()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frozen", default="float32", choices=("float32", "bfloat16", "int8"))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # sizes become constants in a graph
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "model.safetensors").is_file():
            print(json.dumps({"parameters": write(folder)}), flush=True)
        clock = Clock()
        checkpoint = CheckpointSettings(folder=str(folder), frozen=options.frozen)
        layout = Layout(STATE, IMAGES, 128)
        actor = LanguageActor(layout, WORDS, AXES, PolicySettings(checkpoint=checkpoint, chunk=CHUNK))
        clock.lap("load", trained=sum(one.numel() for one in actor.trained()))
        text = torch.from_numpy(encoded("push the red block to the left")).float().expand(BATCH, -1)
        pixels = torch.randint(0, 256, (BATCH, IMAGES[0] * IMAGES[1] * IMAGES[2] * 3)).float()
        observation = torch.cat([torch.randn(BATCH, STATE), text, pixels], dim=1)
        optimiser = torch.optim.AdamW(actor.trained(), lr=1e-4)
        loss = actor.head.loss(actor.features(actor.seen(observation)), torch.zeros(BATCH, CHUNK, AXES)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        clock.lap("step", batch=BATCH)
        planner, noise = Planner(actor.eval()), torch.randn(1, CHUNK, 32)
        with torch.no_grad():
            planned = planner(observation[:1], noise)
        clock.lap("plan", flow_steps=CONFIG["num_steps"])
        inputs = {"observation": (observation.shape[1],), "noise": (CHUNK, 32)}
        graph = trace_to_onnx(planner, inputs, {"actions": (CHUNK, AXES)})
        data = graph.SerializeToString()
        clock.lap("graph", nodes=len(graph.graph.node), mib=round(len(data) / 2**20))
        del graph, actor
        import onnxruntime

        options_ = onnxruntime.SessionOptions()
        options_.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(data, options_)
        clock.lap("open graph")
        (found,) = session.run(None, {"observation": observation[:1].numpy(), "noise": noise.numpy()})
        clock.lap("plan by graph", differs=float(abs(found - planned.numpy()).max()))


if __name__ == "__main__":
    main()
