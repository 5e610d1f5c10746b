"""tools/release_policy: smaller pictures in a report, and the README of a released policy."""

from __future__ import annotations

import argparse
import base64
import importlib.util
import io
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.policies.graphs import mlp_contract


@pytest.fixture(scope="module")
def tool() -> Any:
    loader = SourceFileLoader("release_policy", str(Path(__file__).parents[1] / "tools" / "release_policy"))
    spec = importlib.util.spec_from_loader("release_policy", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_pictures_of_a_report_become_smaller(tool: Any) -> None:
    out = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (300, 1500, 3), dtype=np.uint8)
    Image.fromarray(noise).save(out, "png")
    page = f'<p>before</p><img src="data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"><p>after</p>'
    small = tool.smaller(page)
    assert len(small) < 0.5 * len(page) and small.startswith("<p>before</p>") and small.endswith("<p>after</p>")
    data = base64.b64decode(small.partition("base64,")[2].partition('"')[0])
    assert Image.open(io.BytesIO(data)).size == (1200, 240)


def test_the_readme_tells_how_it_was_made_and_what_was_measured(tool: Any) -> None:
    axes = {
        "observation_delay_s": {"title": "Observation delay", "unit": "s", "margin": 0.03, "required": 0.02},
        "mass_scale": {"title": "Mass", "unit": "x", "margin": 1.6, "required": 1.3, "open_ended": True},
        "drag_scale": {"title": "Drag", "unit": "x", "margin": 4.0, "required": None},
    }
    for key in ("observation_delay_s", "mass_scale"):
        axes[key]["judged"] = True
    columns = {"batch": {"episodes": 1000, "success": 0.995}}
    record = {"robot": "crazyflie", "backends": columns, "reality": {"axes": axes}}
    record["command"] = "rlstack verify runs/x/policy.onnx --seed 1"
    given = argparse.Namespace(name="hover", recipe="", example="--seconds 5", text="It hovers.")
    contract = mlp_contract(training={"seed": 3, "steps": 4000, "algorithm": "apg"})
    text = tool.readme(given, contract, record, "abc1234")
    for shown in (
        "seed 3, 4,000 steps (apg), commit abc1234",
        "rlstack verify policies/hover/policy.onnx --seed 1",
        "| batch | 1,000 | 99.5% |",
        "| Observation delay | 30 ms | 20 ms |",
        "| Mass | x1.6 or more | x1.3 |",
        "rlstack up deploy --policy hover --seconds 5",
    ):
        assert shown in text
    assert "Drag" not in text
