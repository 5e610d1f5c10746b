from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import contract_for
from rlstack.tasks.bounds import Bounds
from rlstack.tasks.quadrotor.success_criteria import SuccessCriteria
from rlstack.verification.drawing import Plot
from rlstack.verification.flight_plots import draw_flights
from rlstack.verification.flight_score import score_flights
from rlstack.verification.page import render, write_report
from rlstack.verification.report import IN_PROCESS_NAME, RECORD_NAME, Column, Replay, Verification, environment

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


FIRST = ("episodes", "success", "lost")
COLUMNS = {
    "batch": (0.05, Bounds(at_least={"success": 0.95}, at_most={"lost": 0.01}, episodes=1)),
    "mujoco": (0.05, Bounds(at_least={"success": 0.93}, at_most={"lost": 0.01, "latency_p99_ms": 1.5}, episodes=1)),
}


@pytest.fixture(scope="module")
def make(flights) -> Callable[..., Verification]:
    def make(columns=COLUMNS, *, name: str = "hover", label: str = "wind", draw: bool = False, **changes):
        records = {
            column: flights(
                np.full((81, 4), distance),
                labels=["none", label] * 2,
                backend="batch" if column == "batch" else f"{column} (topics)",
                latency_s=() if column == "batch" else [0.001],
            )
            for column, (distance, _) in columns.items()
        }
        contract = contract_for(
            ROBOT,
            ["position", "orientation", "goal_position"],
            ["rotor_speed"],
            name=name,
            task="quadrotor_hover",
            state={"memory": (16,)},
            envelope={"tilt_rad": 1.5},
            training={"recipe": {"name": "quadrotor_hover", "steps": 1000}},
        )
        arguments = {
            "name": name,
            "contract": contract,
            "sha256": "a1" * 32,
            "task": "quadrotor_hover",
            "robot": ROBOT,
            "columns": {
                column: Column(
                    simulator=records[column].simulator,
                    score=score_flights(records[column], SuccessCriteria()),
                    bounds=bounds,
                    description="4 flights of 8 s",
                    labels={label: "mass +7% off the robot file"},
                )
                for column, (_, bounds) in columns.items()
            },
            "first": FIRST,
            "pictures": draw_flights(records, SuccessCriteria(), commands=ROBOT.rotor_names) if draw else (),
            "provenance": {"seed": 7, **environment()},
            "command": "rlstack verify policy.onnx --seed 7",
        }
        return Verification(**{**arguments, **changes})

    return make


@pytest.fixture(scope="module")
def written(make, tmp_path_factory) -> tuple[Verification, Path]:
    verification = make(draw=True)
    return verification, write_report(tmp_path_factory.mktemp("report") / "deep" / "er", verification)


def words(page: str) -> str:
    return " ".join(Page(page).text.split())


def test_the_record_has_the_verdict_and_every_figure(written):
    verification, page = written
    data = json.loads((page.parent / "verify.json").read_text())
    assert data == json.loads(json.dumps(verification.to_json()))
    assert data["passed"] is True and data["reasons"] == []
    assert data["sha256"] == "a1" * 32 and data["robot_sha256"] == ROBOT.sha256
    assert list(data["backends"]) == ["batch", "mujoco"]
    for name, entry in data["backends"].items():
        assert entry["episodes"] == 4 and entry["success"] == 1.0 and entry["success_high"] == 1.0
        assert entry["error_m"] == pytest.approx(0.05)
        assert entry.items() >= verification.columns[name].score.to_json().items()
    asked = {"success": 0.93, "lost": 0.01, "latency_p99_ms": 1.5, "episodes": 1}
    assert data["backends"]["mujoco"]["asked"] == asked and data["backends"]["mujoco"]["flown_in"] == "mujoco (topics)"
    assert data["transfer"]["hover"]["batch"]["error_m"]["value"] == pytest.approx(0.05)
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


def test_a_replay_is_the_first_thing_in_the_page_and_cannot_end_its_script(make, tmp_path):
    replay = Replay(film=b"RIFF film", page="<html><script>alert(1)</script></html>", missing="No third simulator.")
    page = write_report(tmp_path, make(replay=replay))
    text = page.read_text()
    assert (tmp_path / "film.webp").read_bytes() == b"RIFF film"
    assert text.index(base64.b64encode(b"RIFF film").decode()) < text.index('<div class="verdict')
    (embedded,) = re.findall(r"const page = (.*);", text)
    assert json.loads(embedded) == replay.page and "</script" not in embedded
    policy = next(a["content"] for t, a in Page(text).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and not re.search(r"https?:|\*|'self'", policy)
    assert "Not shown above: No third simulator." in text


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
    text = words(page.read_text())
    assert text.index("Passed") < text.index("Figures") < text.index("Pictures")
    assert "Judged: batch, mujoco." in text and "mujoco: Episodes 4, Success 100.0%, Lost 0.0%." in text
    assert "judged: success at least 93.0%, lost at most 1.0%, control latency, 99th percentile at most 1.50 ms" in text
    assert "95% interval 51.0% to 100.0%" in text and "not measured" in text
    assert "mass +7% off the robot file" in text
    for wanted in ("orientation", "quaternion xyzw", "base_link in odom", "cmd/rotors", "m1, m2, m3, m4"):
        assert wanted in text
    for wanted in ("0 to 2272.6", "memory", "tilt_rad 1.5", "recipe.steps 1000", "a1" * 32, "100 Hz", "seed 7"):
        assert wanted in text
    for figure in verification.columns["batch"].score.figures:
        assert figure.title in text and figure.definition in text
    assert "rlstack verify policy.onnx --seed 7" in text


def test_a_column_that_nobody_judges_is_never_green(make):
    bad = make({**COLUMNS, "batch, other maps": (0.3, None)})
    assert bad.passed and bad.judged == ["batch", "mujoco"] and bad.verdict == "passed"
    assert bad.scope == "Judged: batch, mujoco. Not judged, shown for comparison: batch, other maps."
    page = render(bad)
    verdict = re.search(r'<div class="verdict passed">.*?</div>', page, re.DOTALL)[0]
    assert "Not judged, shown for comparison: batch, other maps." in verdict and "0.0%" not in verdict.split("</p>")[0]
    assert "batch, other maps: " not in verdict.replace("comparison: batch", "")
    assert "batch, other maps, not judged: Episodes 4, Success 0.0%, Lost 0.0%." in words(page)
    assert "not judged (shown for comparison)" in page and 'class="ok">0.0%</span><small>\u2717' not in page
    assert not re.search(r'class="(ok|short)">0\.0%</span>\s*<small>95% interval', page)
    assert bad.rows()[:2] == [
        ["", "batch", "mujoco", "batch, other maps"],
        ["", "judged", "judged", "not judged"],
    ]
    assert bad.to_json()["backends"]["batch, other maps"]["asked"] == {}


def test_what_nobody_judges_does_not_pass(make):
    unjudged = make({"batch": (0.05, None)})
    assert not unjudged.passed and unjudged.failures == ["No column was judged."]
    planner = make({"batch": (0.05, None)}, contract=None)
    assert planner.passed and planner.verdict == "not judged"
    assert '<div class="verdict not-judged">' in render(planner) and "Passed" not in render(planner)


def test_only_what_went_over_topics_is_called_a_proof(make):
    assert make().record_name == RECORD_NAME
    assert make({"batch": COLUMNS["batch"]}).record_name == IN_PROCESS_NAME


def test_baselines_are_shown_beside_the_policy_and_not_judged(make, flights):
    lost = score_flights(flights(np.full((81, 4), 3.0)), SuccessCriteria())
    near = score_flights(flights(np.full((81, 4), 0.012)), SuccessCriteria())
    plain = make()
    assert "classical" not in words(render(plain))
    columns = dict(plain.columns)
    columns["batch"] = replace(columns["batch"], baselines={"Lee geometric": near, NASTY: lost})
    compared = make(columns=COLUMNS)
    compared = replace(compared, columns=columns)
    assert compared.passed  # although one of them failed wholly
    page = render(compared)
    assert "<script" not in page and "Beside classical baselines" in words(page)
    assert "hover judged Lee geometric baseline, not judged" in words(page)
    assert "Position error 0.050 m 0.012 m 3.000 m" in words(page)
    data = compared.to_json()
    assert data["backends"]["batch"]["baselines"]["Lee geometric"] == near.to_json()
    assert data["backends"]["mujoco"]["baselines"] == {} and set(data["transfer"]["Lee geometric"]) == {"batch"}


def test_baselines_beside_trials_over_topics_are_not_in_the_transfer_table(make):
    topics = make().columns["mujoco"]
    beside = replace(topics, baselines={"dwa": topics.score})
    assert set(replace(make(), columns={"mujoco": beside}).transfer.scores) == {"hover"}
    assert "in process" in words(render(replace(make(), columns={"mujoco": beside})))


def test_a_failure_is_told_with_its_reasons(make):
    bounds = Bounds(at_least={"success": 0.93}, episodes=1)
    failed = make({"batch": COLUMNS["batch"], "mujoco": (0.3, bounds)}, reasons=("isaac: not installed.",))
    page = render(failed)
    reasons = ["isaac: not installed.", "mujoco: Success is 0.0%, but at least 93.0% is required."]
    data = failed.to_json()
    assert (data["passed"], data["reasons"]) == (False, reasons)
    assert "Failed" in words(page) and "Passed" not in words(page)
    assert all(reason in words(page) for reason in reasons)
    assert '<span class="short">0.0%' in page


def test_what_comes_from_outside_is_escaped(make):
    verification = make(
        name=NASTY,
        label=NASTY,
        provenance={NASTY: NASTY},
        command=NASTY,
        reasons=(NASTY,),
        sha256=NASTY,
        findings=(NASTY,),
        description=NASTY,
        left_out={NASTY: NASTY},
        pictures=[Plot(NASTY, NASTY, NASTY, b"")],
    )
    text = render(verification)
    assert "<script" not in text
    assert Page(text).text.count("alert(") >= 10


def test_an_earlier_report_is_replaced(make, written, tmp_path):
    before = written[1].parent
    shutil.copytree(before, tmp_path / "er")
    bad = {**COLUMNS, "mujoco": (0.3, COLUMNS["mujoco"][1])}
    write_report(tmp_path / "er", make(bad, draw=True))
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


def test_without_jinja2_it_is_said_how_to_get_it(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UserError, match=r"pip install 'rlstack\[view\]'"):
        render(make())
