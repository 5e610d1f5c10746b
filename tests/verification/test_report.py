from __future__ import annotations

import base64
import dataclasses
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import contract_for
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.criteria import Criteria
from rlstack.tasks.quadrotor.scenario import Scenario
from rlstack.verification.metrics import figures, score
from rlstack.verification.page import render
from rlstack.verification.plots import Plot
from rlstack.verification.report import Verification, environment, record, write_report

pytest.importorskip("matplotlib")

ROBOT = load_quadrotor("crazyflie")
NASTY = "<script>alert('\"&')</script>"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """What a page holds, with every tag checked to be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data + " "


def scenario(count: int, labels: list[str]) -> Scenario:
    state = {
        "position": np.zeros((count, 3)),
        "orientation": np.tile([0.0, 0.0, 0.0, 1.0], (count, 1)),
        "linear_velocity": np.zeros((count, 3)),
        "angular_velocity": np.zeros((count, 3)),
        "rotor_speed": np.full((count, 4), 1000.0),
    }
    heavy = dataclasses.replace(Perturbation.none(count), mass_scale=np.full(count, 1.07))
    return Scenario(state, np.zeros((count, 3)), np.zeros(count), heavy, np.array(labels))


@pytest.fixture(scope="module")
def make(flights):
    def make(*, distance: float = 0.05, name: str = "hover", label: str = "wind", **changes) -> Verification:
        labels = ["none", label, "none", label]
        episodes = {
            "batch": flights(np.full((81, 4), 0.05), labels=labels),
            "mujoco": flights(np.full((81, 4), distance), labels=labels, backend="MuJoCo (topics)", latency_s=[0.001]),
        }
        arguments = {
            "contract": contract_for(
                ROBOT,
                ["position", "orientation", "goal_position"],
                ["rotor_speed"],
                name=name,
                task="quadrotor_hover",
                state={"memory": (16,)},
                envelope={"tilt_rad": 1.5},
                training={"recipe": {"name": "quadrotor_hover", "steps": 1000}},
            ),
            "sha256": "a1" * 32,
            "robot": ROBOT,
            "scores": {k: score(e, Criteria()) for k, e in episodes.items()},
            "bounds": {
                "batch": Bounds(at_least={"success": 0.95}, at_most={"lost": 0.01}, episodes=1),
                "mujoco": Bounds(at_least={"success": 0.93}, at_most={"lost": 0.01, "latency_p99_ms": 1.5}, episodes=1),
            },
            "episodes": episodes,
            "scenarios": {k: scenario(4, labels) for k in episodes},
            "provenance": {"seed": 7, **environment()},
            "command": "rlstack verify policy.onnx --seed 7",
        }
        return Verification(**{**arguments, **changes})

    return make


@pytest.fixture(scope="module")
def written(make, tmp_path_factory) -> tuple[Verification, Path]:
    verification = make()
    return verification, write_report(tmp_path_factory.mktemp("report") / "deep" / "er", verification)


def test_the_record_has_the_verdict_and_every_figure(written):
    verification, page = written
    data = json.loads((page.parent / "verify.json").read_text())
    assert data == json.loads(json.dumps(record(verification)))
    assert data["passed"] is True and data["reasons"] == []
    assert data["sha256"] == "a1" * 32 and data["robot_sha256"] == ROBOT.sha256
    assert list(data["backends"]) == ["batch", "mujoco"]
    for name, entry in data["backends"].items():
        assert entry["episodes"] == 4 and entry["success"] == 1.0
        assert entry["error_m"] == pytest.approx(0.05)
        assert entry.items() >= verification.scores[name].to_json().items()
    assert data["backends"]["mujoco"]["asked"] == {
        "success": 0.93,
        "lost": 0.01,
        "latency_p99_ms": 1.5,
        "episodes": 1,
    }
    assert data["provenance"]["seed"] == 7 and data["provenance"]["versions"]["numpy"] == np.__version__


def test_the_page_needs_nothing_outside_itself(written):
    _, page = written
    text = page.read_text()
    parsed = Page(text)
    assert {tag for tag, _ in parsed.tags}.isdisjoint({"script", "link", "iframe", "object", "base"})
    for _, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "srcset", "action"):
            assert attributes.get(name) is None or attributes[name].startswith("data:image/png;base64,")
    assert "url(" not in text and "@import" not in text and "//" not in re.sub(r'"data:[^"]*"', "", text)
    policy = next(a["content"] for t, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert any(a.get("name") == "viewport" for t, a in parsed.tags)


def test_the_pictures_in_the_page_are_those_beside_it(written):
    _, page = written
    images = [a["src"] for t, a in Page(page.read_text()).tags if t == "img"]
    inside = {base64.b64decode(source.split(",", 1)[1]) for source in images}
    beside = {path.read_bytes() for path in page.parent.glob("*.png")}
    assert inside == beside and len(beside) == 6
    assert all(png.startswith(b"\x89PNG") for png in beside)
    assert sorted(p.name for p in page.parent.iterdir() if p.suffix != ".png") == ["report.html", "verify.json"]


def test_the_page_says_what_matters(written):
    verification, page = written
    text = " ".join(Page(page.read_text()).text.split())
    assert text.index("Passed") < text.index("Figures") < text.index("Flights")
    assert "mujoco: 100.0% of 4 flights stay within 0.2 m from second 3 to second 8, 0.0% are lost." in text
    assert "at least 93.0%" in text and "at most 1.50 ms" in text and "not measured" in text
    assert "mass +7% off the robot file" in text
    for wanted in ("orientation", "quaternion xyzw", "base_link in odom", "cmd/rotors", "m1, m2, m3, m4"):
        assert wanted in text
    for wanted in ("0 to 2272.6", "memory", "tilt_rad 1.5", "recipe.steps 1000", "a1" * 32, "100 Hz", "seed 7"):
        assert wanted in text
    for figure in figures(verification.scores["batch"]):
        assert figure.title in text and figure.definition in text
    assert "rlstack verify policy.onnx --seed 7" in text


def test_classical_controllers_are_shown_beside_the_policy_and_not_judged(make, flights):
    lost = score(flights(np.full((81, 4), 3.0)), Criteria())
    near = score(flights(np.full((81, 4), 0.012)), Criteria())
    assert "classical" not in Page(render(make(), [])).text
    compared = make(baselines={"batch": {"Lee geometric": near, NASTY: lost}})
    assert compared.passed  # although one of them failed wholly
    page = render(compared, [])
    text = " ".join(Page(page).text.split())
    assert "<script" not in page and "Beside classical controllers" in text
    assert "hover the policy Lee geometric baseline, not judged" in text
    assert "Position error 0.050 m 0.012 m 3.000 m" in text
    data = record(compared)["backends"]
    assert data["batch"]["baselines"]["Lee geometric"] == near.to_json()
    assert data["mujoco"]["baselines"] == {}
    with pytest.raises(ValueError, match="baselines are of"):
        make(baselines={"isaac": {"Lee geometric": near}})


def test_a_failure_is_told_with_its_reasons(make):
    failed = make(distance=0.3, reasons=("isaac: not installed.",))
    page = render(failed, [])
    reasons = ["isaac: not installed.", "mujoco: Success is 0.0%, but at least 93.0% is asked."]
    data = record(failed)
    assert (data["passed"], data["reasons"]) == (False, reasons)
    text = Page(page).text
    assert "Failed" in text and "Passed" not in text
    assert all(reason in text for reason in reasons)
    assert '<span class="short">0.0%' in page


def test_what_comes_from_outside_is_escaped(make):
    verification = make(
        name=NASTY, label=NASTY, provenance={NASTY: NASTY}, command=NASTY, reasons=(NASTY,), sha256=NASTY
    )
    text = render(verification, [Plot(NASTY, NASTY, NASTY, b"")])
    assert "<script" not in text
    assert Page(text).text.count("alert(") >= 10


def test_an_earlier_report_is_replaced(make, written, tmp_path):
    before = written[1].parent
    shutil.copytree(before, tmp_path / "er")
    write_report(tmp_path / "er", make(distance=0.3))
    assert json.loads((tmp_path / "er" / "verify.json").read_text())["passed"] is False
    assert "Passed" not in (tmp_path / "er" / "report.html").read_text()
    assert (tmp_path / "er" / "error.png").read_bytes() != (before / "error.png").read_bytes()
    assert len(list((tmp_path / "er").iterdir())) == 8


def test_no_new_record_if_the_rest_cannot_be_written(make, tmp_path):
    (tmp_path / "report.html").mkdir()
    (tmp_path / "verify.json").write_text("old")
    with pytest.raises(UserError, match=r"Cannot write .*report\.html"):
        write_report(tmp_path, make())
    assert (tmp_path / "verify.json").read_text() == "old"
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(UserError, match="plain, finite values"):
        write_report(tmp_path / "new", make(provenance={"gain": float("nan")}))
    assert not (tmp_path / "new").exists()


def test_a_report_of_nothing_flown_says_why(make, tmp_path):
    empty = make(scores={}, bounds={}, episodes={}, scenarios={}, reasons=("mujoco is not installed.",))
    page = write_report(tmp_path, empty)
    assert "mujoco is not installed." in Page(page.read_text()).text
    assert json.loads((tmp_path / "verify.json").read_text())["backends"] == {}


def test_what_does_not_fit_together_is_refused(make, flights):
    with pytest.raises(ValueError, match="no reason"):
        make(scores={}, bounds={}, episodes={}, scenarios={})
    with pytest.raises(ValueError, match="bounds are of"):
        make(bounds={"batch": Bounds(at_least={"success": 0.95}, at_most={"lost": 0.01})})
    good = make()
    with pytest.raises(ValueError, match="different criteria"):
        make(scores={**good.scores, "mujoco": score(good.episodes["mujoco"], Criteria(radius_m=0.5))})
