"""The stages of the benchmark around its package, which is seldom installed, and a model on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlstack import cli
from rlstack.agent.embodied import bench as module
from rlstack.agent.embodied.bench import Options, bench
from rlstack.agent.model import Model
from rlstack.errors import UserError
from tests.support.model_server import completion, model_server

SAID = {
    "goal_evaluation": {"task_success_rate": 0.5, "overall_goal": 0.75},
    "trajectory_evaluation": {"execution_success_rate": 0.625},
}


class Package:
    """Answers the commands of a worker: three prompts, and figures that are given."""

    def __init__(self) -> None:
        self.versions = {"eai-eval": "1.0.5"}
        self.asked: list[str] = []
        self.given: list[tuple[str, str]] = []

    def __enter__(self) -> Package:
        return self

    def __exit__(self, *error: object) -> None: ...

    def ask(self, worker: int, name: str, *arguments: Any) -> Any:
        self.asked.append(name)
        if name == "prompts":
            return [(f"task_{k}", "You plan.", f"Do {k}.") for k in range(3)]
        self.given = arguments[1]
        return SAID


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Package:
    made = Package()
    monkeypatch.setattr(module, "Workers", lambda package, python: made)
    return made


def test_a_model_answers_and_an_interrupted_benchmark_goes_on(package: Package, tmp_path: Path) -> None:
    def say(request: dict[str, Any]) -> str | bytes:
        return completion(None, refusal="No.") if "Do 1" in request["messages"][1]["content"] else '{"output": []}'

    def options(url: str) -> Options:
        return Options(("subgoal_decomposition",), Model(url, "tiny", timeout_s=10.0))

    stages: list[tuple[str, int, int]] = []
    with model_server(say) as server:
        bench(options(server.url), tmp_path, Path("python"), lambda *stage: stages.append(stage))
        assert len(server.requests) == 3
        messages = [(message["role"], message["content"]) for message in server.requests[0]["messages"]]
        assert messages == [("system", "You plan."), ("user", "Do 0.")]
        assert package.given == [("task_0", '{"output": []}'), ("task_1", ""), ("task_2", '{"output": []}')]
        (tmp_path / "subgoal_decomposition.summary.json").unlink()
        answers = tmp_path / "subgoal_decomposition.answers.jsonl"
        answers.write_text(answers.read_text()[:-5])  # interrupted while the last one was written
        results = bench(options(server.url), tmp_path, Path("python"), lambda *stage: stages.append(stage))
        assert len(server.requests) == 4 and package.asked == ["prompts", "evaluate", "evaluate"]
    found = results["modules"]["subgoal_decomposition"]
    assert found["figures"] == {"task success": 50.0, "executable": 62.5, "goals reached": 75.0}
    assert (found["tasks"], found["answered"]) == (3, 2)
    assert ("subgoal_decomposition: answers", 3, 3) in stages
    assert "| subgoal decomposition | 3 | 2 | task success 50.0%, exec" in (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "results.json").read_text()) == results
    with pytest.raises(UserError, match=r"--out .* is not allowed: it is of other options, .*tiny"):
        bench(Options(("subgoal_decomposition",)), tmp_path, Path("python"), lambda *stage: None)


def test_an_endpoint_that_is_absent_ends_it_and_is_not_scored(package: Package, tmp_path: Path) -> None:
    with model_server(lambda request: "") as server:
        pass
    options = Options(("subgoal_decomposition",), Model(server.url, "tiny", timeout_s=5.0))
    with pytest.raises(UserError, match="cannot be used"):
        bench(options, tmp_path, Path("python"), lambda *stage: None)
    assert "evaluate" not in package.asked


def test_the_command_checks_its_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "agent", "--every", "0"]) == 2
    assert "--every 0 is not allowed" in capsys.readouterr().err
    assert cli.main(["bench", "agent", "--out", f"{tmp_path}/run", "--python", f"{tmp_path}/none"]) == 2
    assert "there is no interpreter" in capsys.readouterr().err
