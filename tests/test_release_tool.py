"""tools/release_policy: smaller pictures in a report, and the README of a released policy."""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import io
import json
import shutil
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rlstack.errors import UserError
from rlstack.policies import find_policy
from rlstack.policies.record import RELEASED_SUMS
from rlstack.policies.released import released
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


def test_the_list_of_released_records_is_that_of_the_records(tool: Any) -> None:
    now, listed = tool.sums(tool.ROOT / "policies"), RELEASED_SUMS.read_text()
    stale = "A released verify.json changed: run `python tools/release_policy --sums-only` and commit released.sha256."
    assert now == listed, stale
    assert listed.count("\n") == len(released())


def test_a_record_that_is_not_signed_here_is_released_only_if_that_is_said(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, policy = tmp_path / "root", find_policy("arm_reach")
    (root / "policies").mkdir(parents=True)
    monkeypatch.setattr(tool, "ROOT", root)
    monkeypatch.setattr(tool, "RELEASED_SUMS", root / "released.sha256")
    made = tmp_path / "made"
    shutil.copytree(policy.parent, made)
    (made / "verify.json").write_text(json.dumps(json.loads((made / "verify.json").read_text())))
    words = ["release_policy", "mine", str(made), "--commit", "abc1234"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(UserError, match=r"verify.json is unsigned, so nobody vouches for it"):
        tool.main()
    assert not (root / "policies" / "mine").exists()
    monkeypatch.setattr(sys, "argv", [*words, "--unsigned"])
    assert tool.main() == 0
    digest = hashlib.sha256((made / "verify.json").read_bytes()).hexdigest()
    assert (root / "released.sha256").read_text() == f"{digest}  mine/verify.json\n"


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
