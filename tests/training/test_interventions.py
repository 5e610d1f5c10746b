"""Learning with somebody who intervenes: who does what, what is kept, what is earned, and going on."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstack.errors import UserError
from rlstack.training.algorithms.dagger import DAgger, DAggerSettings
from rlstack.training.algorithms.hil_serl import HILSERL, HILSERLSettings
from rlstack.training.algorithms.rlif import RLIF, RLIFSettings
from rlstack.training.critics import Critics
from rlstack.training.intervention_strategies import IntervenerSettings, ScriptedIntervener
from rlstack.training.run_folder import save_checkpoint
from tests.support.reaching import Reaching, success

SMALL: dict[str, Any] = {"hidden": (16,), "batch": 32, "warm_up": 0, "demonstrations": 5, "critics": 2, "updates": 0.25}
NEVER = torch.zeros(400, dtype=torch.bool)


def decided(settings: IntervenerSettings, steps: int = 40) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return who was intervened (steps, robots), what was done, and what the expert would have done; none moves."""
    environment = Reaching(400)
    script = ScriptedIntervener(settings, environment, 0)
    proposed = -environment.expert_action()  # as wrong as can be
    told = [script.decide(environment.observe()[0], proposed, NEVER) for _ in range(steps)]
    now, action = torch.stack([one.now for one in told]), torch.stack([one.action for one in told])
    assert torch.equal(action[~now], proposed.expand_as(action)[~now])
    return now, action, environment.expert_action().expand_as(action)


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.85])
def test_at_random_so_many_steps_are_intervened(rate: float) -> None:
    now, action, expert = decided(IntervenerSettings(rate=rate, hold=1))
    assert now.float().mean().item() == pytest.approx(rate, abs=0.02)
    assert torch.equal(action[now], expert[now])


def test_an_intervention_lasts_and_is_skilled_or_not_as_a_whole() -> None:
    now, action, expert = decided(IntervenerSettings(rate=0.1, hold=4, skill=0.5))
    right = (action == expert).all(dim=2)
    for robot in range(50):
        lengths = np.diff(np.flatnonzero(np.diff(now[:, robot].int().numpy(), prepend=0, append=0)))[::2]
        assert (lengths[:-1] == 4).all()  # then the policy has its turn
    assert (right & now).sum() / now.sum() == pytest.approx(0.5, abs=0.05)
    first = now[0]
    assert torch.equal(right[0][first], right[3][first]) and torch.equal(action[0][first], action[3][first])


def test_after_so_many_steps_of_all_robots_nobody_intervenes_any_more() -> None:
    settings, environment = IntervenerSettings(rate=1.0, hold=1, steps=1200), Reaching(400)
    one, other = (ScriptedIntervener(settings, environment, 0) for _ in range(2))
    seen, proposed = environment.observe()[0], torch.zeros(400, 2)
    assert all(one.decide(seen, proposed, NEVER).now.all() for _ in range(2))
    other.load_state_dict(one.state_dict())
    for script in (one, other):
        assert [bool(script.decide(seen, proposed, NEVER).now.any()) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(("tolerance", "after", "otherwise"), [(0.0, 0.9, 0.1), (9.0, 0.1, 0.1)])
def test_after_an_action_that_was_too_far_off_it_judges_right_as_often_as_it_should(
    tolerance: float, after: float, otherwise: float
) -> None:
    now, _, _ = decided(IntervenerSettings(kind="action", tolerance=tolerance, right=0.9, hold=1))
    assert now[0].float().mean().item() == pytest.approx(otherwise, abs=0.05)  # nothing was done yet
    assert now[1:][~now[:-1]].float().mean().item() == pytest.approx(after, abs=0.02)
    assert now[1:][now[:-1]].float().mean().item() == pytest.approx(otherwise, abs=0.02)


@pytest.mark.parametrize("patience", [1, 5])
def test_it_waits_for_so_many_bad_steps_in_a_row_and_then_leads_for_so_many(patience: int) -> None:
    settings = IntervenerSettings(kind="action", tolerance=0.0, right=1.0, hold=3, patience=patience)
    now, _, _ = decided(settings, steps=3 * (patience + 3))
    for robot in now.T:  # all that is done is wrong
        assert robot.int().tolist() == ([0] * patience + [1] * 3) * 3


def test_an_episode_that_takes_long_is_led_to_its_end() -> None:
    environment = Reaching(4)
    settings = IntervenerSettings(kind="random", rate=0.0, overdue=6, hold=99, right=1.0)
    script = ScriptedIntervener(settings, environment, 0)
    for step in range(18):  # one begins anew after ten steps
        begins = torch.tensor([step in (0, 10), step == 0, step == 0, step == 0])
        now = script.decide(environment.observe()[0], torch.zeros(4, 2), begins).now
        assert now.tolist() == [step >= 16 or 6 <= step < 10, step >= 6, step >= 6, step >= 6], step


def test_critics_of_a_run_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    critics = Critics(6, (16,), 2, False)
    save_checkpoint(tmp_path, {"algorithm": {"learner": {"critics": critics.state_dict()}}})
    recipe = type("Run", (), {"algorithm_settings": HILSERLSettings(hidden=(16,), critics=2, layer_norm=False)})
    monkeypatch.setattr("rlstack.training.run_folder.recipe_of", lambda folder: recipe)
    settings = IntervenerSettings(kind="value", critics=str(tmp_path), right=1.0, share=0.97, hold=1)
    environment = Reaching(400)
    seen, proposed = environment.observe()[0], torch.zeros(400, 2)
    now = ScriptedIntervener(settings, environment, 0).decide(seen, proposed, NEVER).now
    own, best = (critics(seen, action).mean(dim=0) for action in (proposed, environment.expert_action()))
    assert torch.equal(now, own < best - 0.03 * best.abs())
    assert 0 < now.sum() < 400


def test_a_folder_without_critics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="kind: value needs critics"):
        ScriptedIntervener(IntervenerSettings(kind="value"), Reaching(), 0)
    with pytest.raises(UserError, match=r"it has no checkpoint\.pt"):
        ScriptedIntervener(IntervenerSettings(kind="value", critics=str(tmp_path)), Reaching(), 0)


def test_what_was_intervened_is_experience_and_demonstration(tmp_path: Path) -> None:
    torch.manual_seed(0)
    settings = HILSERLSettings(**SMALL, intervener=IntervenerSettings(rate=0.2, hold=3))
    algorithm = HILSERL(settings, Reaching())
    algorithm.open(tmp_path)
    shares = [algorithm.iterate(0.0).logged()["train/intervened"] for _ in range(4)]
    assert algorithm.interventions is not None and algorithm._experience is not None
    kept, every = algorithm.interventions.buffer, algorithm._experience.buffer
    corrected, all_ = kept.gather(kept.indices()), every.gather(every.indices())
    assert len(corrected["reward"]) == round(sum(shares) * 8 * 8)
    rows = {tuple(np.concatenate([o, a, n])) for o, a, n in zip(*(all_[k] for k in ROW))}
    assert {tuple(np.concatenate([o, a, n])) for o, a, n in zip(*(corrected[k] for k in ROW))} <= rows
    to_goal = corrected["observation"][:, 2:]
    np.testing.assert_allclose(corrected["action"], np.clip(10.0 * to_goal, -1.0, 1.0), atol=1e-4)  # the expert's


ROW = ("observation", "action", "next_observation")


def test_rlif_earns_where_a_step_makes_somebody_intervene_and_nowhere_else(tmp_path: Path) -> None:
    torch.manual_seed(0)
    settings = RLIFSettings(**SMALL, intervener=IntervenerSettings(kind="action", tolerance=0.6, right=1.0, hold=2))
    algorithm = RLIF(settings, Reaching())
    algorithm.open(tmp_path)
    for _ in range(4):
        algorithm.iterate(0.0)
    assert algorithm._experience is not None
    buffer = algorithm._experience.buffer
    index = buffer.indices()
    held, (_, last) = buffer.gather(index), buffer.bounds(index)
    lanes, rewards = buffer.spec.lanes, dict(zip(index.tolist(), held["reward"].tolist()))
    wrong = np.sqrt(np.square(held["action"] - np.clip(10.0 * held["observation"][:, 2:], -1.0, 1.0)).mean(axis=1))
    corrected = dict(zip(index.tolist(), (wrong < 1e-4).tolist()))  # no policy hits it so exactly
    assert set(rewards.values()) == {0.0, -1.0}
    for number, end in zip(index.tolist(), last.tolist()):
        if number + lanes < end:
            assert rewards[number] == (-1.0 if corrected[number + lanes] and not corrected[number] else 0.0)
    (batch,) = algorithm._batches(1)
    assert set(batch["reward"].tolist()) <= {0.0, -1.0}
    assert algorithm.replay is not None
    shown = algorithm.replay._drawn(algorithm.replay.prior, 50, 0.0, 1.0)
    assert (shown["reward"] == -1.0).any()  # not by what the task says of demonstrations, which are drawn first
    corrections, prior = algorithm.replay.corrections, algorithm.replay.prior
    assert corrections is not None
    some = round(16 * len(corrections) / (len(corrections) + len(prior)))
    assert some < 16
    assert (batch["reward"][16 : 32 - some] == 0.0).all()
    assert batch["demonstrated"].tolist() == [0.0] * 16 + [1.0] * (16 - some) + [0.0] * some  # corrections may be wrong


def test_hindsight_is_refused_with_rlif() -> None:
    with pytest.raises(UserError, match="hindsight is not allowed with rlif"):
        RLIF(RLIFSettings(**SMALL, hindsight=0.5), Reaching())


def test_a_gripper_that_changes_its_mind_costs(tmp_path: Path) -> None:
    environment = Reaching()
    environment.pipeline.axes = ("x", "gripper")
    algorithm = HILSERL(HILSERLSettings(**SMALL, gripper_penalty=0.1), environment)
    earned = []
    for told in (1.0, -1.0, -0.5, 0.0, 0.3):
        result = environment.step(torch.zeros(8, 2))
        action = torch.tensor([0.0, told]).expand(8, 2)
        earned.append((algorithm._reward(action, result, NEVER[:8], NEVER[:8]) - result.reward)[~result.done])
    for given, expected in zip(earned, (0.0, -0.1, 0.0, 0.0, -0.1)):
        assert torch.allclose(given, torch.tensor(expected), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (HILSERL, HILSERLSettings(**SMALL)),
        (DAgger, DAggerSettings(hidden=(16,), batch=32, demonstrations=5, pretraining=5, updates=0.1)),
    ],
)
def test_a_run_goes_on_exactly(kind: Any, settings: Any, tmp_path: Path) -> None:
    torch.manual_seed(3)
    first = kind(settings, Reaching())
    first.open(tmp_path)
    first.iterate(0.0)
    state = first.state_dict()
    resumed, told = [kind(settings, Reaching(seed=seed)) for seed in (5, 6)], []
    for number, algorithm in enumerate(resumed):
        folder = tmp_path / f"copy{number}"
        _copy(tmp_path, folder)
        algorithm.load_state_dict(copy.deepcopy(state))  # torch's optimisers go on with the very arrays
        for name, tensor in first.actor().state_dict().items():
            assert torch.equal(tensor, algorithm.actor().state_dict()[name]), name
        algorithm.open(folder)
        told.append(algorithm.iterate(0.5).logged())
    assert told[0] == told[1]
    for name, tensor in resumed[0].actor().state_dict().items():
        assert torch.equal(tensor, resumed[1].actor().state_dict()[name]), name


def _copy(source: Path, target: Path) -> None:
    for folder in [path for path in source.iterdir() if (path / "replay.json").is_file()]:
        shutil.copytree(folder, target / folder.name)


def test_dagger_tells_who_intervenes_of_every_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = DAggerSettings(hidden=(16,), batch=32, demonstrations=5, pretraining=5, updates=0.1)
    environment = Reaching()
    algorithm = DAgger(settings, environment)
    algorithm.open(tmp_path)
    told, ended, decide, step = [], [], algorithm.intervener.decide, environment.step

    def decided(seen: torch.Tensor, proposed: torch.Tensor, begins: torch.Tensor) -> Any:
        told.append(begins.clone())
        return decide(seen, proposed, begins)

    def stepped(action: torch.Tensor) -> Any:
        result = step(action)
        ended.append(result.done.clone())
        return result

    monkeypatch.setattr(algorithm.intervener, "decide", decided)
    monkeypatch.setattr(environment, "step", stepped)
    for _ in range(12):
        algorithm.iterate(0.0)
    assert told[0].all() and torch.equal(torch.stack(told[1:]), torch.stack(ended[:-1]))
    assert torch.stack(ended[settings.rollout - 1 :: settings.rollout]).any(), "some end with an iteration"


def test_dagger_learns_from_corrections(tmp_path: Path) -> None:
    torch.manual_seed(0)
    settings = DAggerSettings(hidden=(64,), batch=64, demonstrations=2, pretraining=20, updates=0.5, learning_rate=5e-3)
    algorithm = DAgger(settings, Reaching())
    algorithm.open(tmp_path)
    before = success(algorithm)
    for k in range(16):
        algorithm.iterate(k / 16)
    assert success(algorithm) > 0.9 > before + 0.2
