"""Soft actor-critic's parts against what they are by definition."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch

from rlstack.training import critics as module
from rlstack.training.critics import Critics
from rlstack.training.optimisers import Adam, FusedAdam
from rlstack.training.soft_actor_critic import SoftActorCriticLearner, SoftActorCriticSettings
from rlstack.training.squashed_actor import SquashedActor


def test_the_density_of_a_drawn_action_is_that_of_the_squashed_gaussian() -> None:
    torch.manual_seed(0)
    actor = SquashedActor(3, 2, (16,))
    seen = torch.randn(1, 3)
    many = seen.expand(200_000, 3)
    action, density = actor.sample(many, torch.Generator().manual_seed(1))
    # the share of actions that fall into a cell is its density times its size
    centre, half = actor(seen, {})[0] + 0.02, 0.01
    inside = ((action - centre).abs() < half).all(dim=1)
    share = inside.float().mean().item()
    assert share == pytest.approx(density[inside].exp().mean().item() * (2 * half) ** 2, rel=0.15)
    assert action.abs().max() <= 1.0 and torch.isfinite(density).all()


def test_what_is_deployed_is_the_mean_and_is_exported_alike() -> None:
    actor = SquashedActor(3, 2, (16, 16))
    seen = torch.randn(7, 3)
    action, memory = actor(seen, {})
    assert memory == {} and action.shape == (7, 2)
    drawn = torch.stack([actor.sample(seen, torch.Generator().manual_seed(k))[0] for k in range(2000)])
    assert torch.allclose(drawn.atanh().clamp(-9, 9).mean(dim=0), action.atanh(), atol=0.15)


@pytest.mark.parametrize("normalised", [False, True])
def test_an_ensemble_is_its_members_one_by_one(normalised: bool) -> None:
    critics = Critics(5, (8, 8), 4, normalised)
    with torch.no_grad():
        for parameter in critics.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    seen, action = torch.randn(6, 3), torch.randn(6, 2)
    values = critics(seen, action)
    for member in range(4):
        x = torch.cat([seen, action], dim=1)
        for k in range(3):
            x = x @ critics.weights[k][member] + critics.biases[k][member]
            if k < 2:
                if normalised:
                    x = torch.nn.functional.layer_norm(
                        x, (8,), critics.gains[k][member, 0], critics.shifts[k][member, 0]
                    )
                x = torch.relu(x)
        assert torch.allclose(values[member], x[:, 0], atol=1e-5)
    assert torch.equal(critics(seen, action, torch.tensor([2, 0])), values[[2, 0]])


def _perturbed(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


def _by_hand(critics: Critics, x: torch.Tensor) -> torch.Tensor:
    """Return the ensemble's values by operations that autograd derives."""
    x = x.expand(critics.count, *x.shape)
    for k, (weight, bias) in enumerate(zip(critics.weights, critics.biases)):
        x = torch.baddbmm(bias, x, weight)
        if k < len(critics.weights) - 1:
            if critics.normalised:
                x = torch.nn.functional.layer_norm(x, x.shape[-1:]) * critics.gains[k] + critics.shifts[k]
            x = torch.relu(x)
    return x.squeeze(-1)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("hidden", [(8,), (8, 7)])
def test_the_gradients_of_critics_are_those_of_autograd(normalised: bool, hidden: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    critics = Critics(5, hidden, 3, normalised)
    _perturbed(critics)
    seen, action, target, weight = torch.randn(9, 3), torch.rand(9, 2), torch.randn(9), torch.rand(9)
    x = torch.cat([seen, action], dim=1).requires_grad_()
    expected = _by_hand(critics, x)
    loss = (weight * (expected - target).square()).mean(dim=1).sum()
    wanted = torch.autograd.grad(loss, [*critics.arrays(), x])

    def judge(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        error = values - target
        return (weight * error.square()).mean(dim=1).sum(), 2.0 / 9.0 * weight * error

    told, values = critics.learn(seen, action, judge)
    torch.testing.assert_close(values, expected.detach())
    torch.testing.assert_close(told, loss.detach())
    for array, gradient in zip(critics.arrays(), wanted):
        torch.testing.assert_close(array.grad, gradient)
    for least in (False, True):
        value, slope = critics.slopes(seen, action, least)
        own = _by_hand(critics, x)
        best = own.amin(dim=0) if least else own.mean(dim=0)
        torch.testing.assert_close(value, best.detach())
        torch.testing.assert_close(slope, torch.autograd.grad(best.sum(), x)[0][:, 3:])


def test_a_further_loss_on_values_adds_its_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 50)  # of 117 rows
    settings = SoftActorCriticSettings(hidden=(8,), critics=3, learning_rate=1e-6)
    learner = SoftActorCriticLearner(settings, 3, 2, torch.Generator().manual_seed(0))
    batch = {name: torch.randn(9, 3) for name in ("observation", "next_observation")}
    batch |= {"action": torch.rand(9, 2), "reward": torch.randn(9), "goes_on": torch.zeros(9), "return": torch.randn(9)}
    batch["weight"] = torch.rand(9)
    critics, more = copy.deepcopy(learner.critics), learner.conservative(batch, 0.7)
    values, others = (
        _by_hand(critics, torch.cat(parts, dim=1))
        for parts in ((batch["observation"], batch["action"]), (more.observation, more.action))
    )
    loss = (batch["weight"] * (values - batch["reward"]).square()).mean(dim=1).sum() + more.loss(values, others)
    logged = learner.update_critics(batch, more)
    torch.testing.assert_close(logged["critic"], loss.detach() / 3)
    torch.testing.assert_close(logged["value"], values.detach().mean())
    for array, gradient in zip(learner.critics.arrays(), torch.autograd.grad(loss, critics.arrays())):
        torch.testing.assert_close(array.grad, gradient)


def test_conservative_values_are_a_soft_maximum_that_the_return_bounds_below() -> None:
    learner = SoftActorCriticLearner(SoftActorCriticSettings(), 3, 2, torch.Generator().manual_seed(0))
    batch = {
        "observation": torch.randn(2, 3),
        "next_observation": torch.randn(2, 3),
        "return": torch.tensor([5.0, -5.0]),
    }
    more = learner.conservative(batch, 2.0)
    assert more.observation.shape == (24, 3) and more.action.shape == (24, 2)
    torch.testing.assert_close(more.observation[:8], batch["observation"].repeat_interleave(4, dim=0))
    density = torch.cat([torch.full((8,), -2.0 * math.log(2.0)), _density_of(learner, batch)])
    values, others = torch.tensor([[1.0, 2.0]]), torch.randn(1, 24)
    expected = []
    for k in range(2):
        rows = [8 * kind + 4 * k + n for kind in range(3) for n in range(4)]
        each = torch.tensor([others[0, r] if r < 8 else max(others[0, r], batch["return"][k]) for r in rows])
        expected.append((each - density[rows]).exp().mean().log() - values[0, k])
    torch.testing.assert_close(more.loss(values, others), 2.0 * torch.stack(expected).mean())


def _density_of(learner: SoftActorCriticLearner, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the log-probabilities of the actions that the policy draws first from seed 0, after 16 uniform ones."""
    random = torch.Generator().manual_seed(0)
    torch.rand(8, 2, generator=random)
    rows = [batch[name].repeat_interleave(4, dim=0) for name in ("observation", "next_observation")]
    return torch.cat([learner.actor.sample(row, random)[1] for row in rows]).detach()


@pytest.mark.parametrize(("critics", "cloning"), [(2, 0.0), (2, 4.0), (3, 0.0)])
def test_the_gradient_of_the_policy_is_that_of_autograd(critics: int, cloning: float) -> None:
    settings = SoftActorCriticSettings(hidden=(9, 8), critics=critics, layer_norm=True)
    torch.manual_seed(2)
    batch = {"observation": torch.randn(16, 3), "action": torch.rand(16, 2), "demonstrated": torch.arange(16) % 2}
    learner = SoftActorCriticLearner(settings, 3, 2, torch.Generator().manual_seed(0))
    _perturbed(learner.actor)
    actor, ensemble = copy.deepcopy(learner.actor), learner.critics
    action, density = actor.sample(batch["observation"], torch.Generator().manual_seed(0))
    values = _by_hand(ensemble, torch.cat([batch["observation"], action], dim=1))
    rows = batch["demonstrated"] > 0.5
    clone = (actor(batch["observation"][rows], {})[0] - batch["action"][rows]).square().sum() / 16
    loss = (0.1 * density - (values.amin(dim=0) if critics == 2 else values.mean(dim=0))).mean() + cloning * clone
    loss = loss + 0.3 * actor.mean.bias.square().sum()
    wanted = torch.autograd.grad(loss, list(actor.parameters()))
    logged = learner.update_actor(batch, cloning, lambda: 0.3 * learner.actor.mean.bias.square().sum())
    torch.testing.assert_close(logged["actor"], loss.detach(), rtol=1e-4, atol=1e-6)
    assert ("clone" in logged) == (cloning > 0.0)
    for parameter, gradient in zip(learner.actor.parameters(), wanted):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def test_the_fused_optimiser_takes_the_same_steps_and_goes_on_from_its_state() -> None:
    torch.manual_seed(4)
    start, gradients = torch.randn(5, 3), torch.randn(6, 5, 3)
    usual, fused = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimisers = Adam([usual], lr=0.1, fused=True), FusedAdam([fused], 0.1)
    for k, gradient in enumerate(gradients):
        for parameter in (usual, fused):
            parameter.grad = gradient.clone()
        if k == 3:
            state = optimisers[1].state_dict()
            optimisers = optimisers[0], FusedAdam([fused], 0.1)
            optimisers[1].load_state_dict(state)
        for optimiser in optimisers:
            optimiser.step()
        assert torch.equal(usual, fused)


def test_values_come_to_what_the_rewards_add_up_to() -> None:
    torch.manual_seed(0)
    settings = SoftActorCriticSettings(hidden=(32,), gamma=0.9, learning_rate=1e-2, tau=0.1, entropy_backup=False)
    learner = SoftActorCriticLearner(settings, 2, 1, torch.Generator().manual_seed(0))
    seen = torch.randn(64, 2)
    one = {"observation": seen, "next_observation": seen, "action": torch.zeros(64, 1), "reward": torch.ones(64)}
    ends = (torch.arange(64) % 2).float()
    for _ in range(200):
        learner.update_critics({**one, "observation": seen + ends[:, None], "goes_on": torch.zeros(64)})
    value = learner.critics(seen + ends[:, None], torch.zeros(64, 1)).mean().item()
    assert value == pytest.approx(1.0, abs=0.1)  # nothing comes after
    for _ in range(400):
        learner.update_critics({**one, "goes_on": torch.ones(64)})
        learner.update_actor({**one, "goes_on": torch.ones(64)})
    with torch.no_grad():
        value = learner.critics(seen, learner.act(seen)).mean().item()
    assert value == pytest.approx(1.0 / (1.0 - 0.9), rel=0.2)  # 1 a step for ever


def test_the_temperature_brings_the_entropy_to_its_target() -> None:
    torch.manual_seed(0)
    settings = SoftActorCriticSettings(hidden=(16,), learning_rate=1e-2, target_entropy=-0.3)
    learner = SoftActorCriticLearner(settings, 2, 3, torch.Generator().manual_seed(0))
    batch = {"observation": torch.randn(128, 2)}
    logged = [learner.update_actor(batch)["entropy"].item() for _ in range(500)]
    assert sum(logged[-100:]) / 100 == pytest.approx(-0.9, abs=0.3)


def test_it_goes_on_exactly_from_its_state() -> None:
    settings = SoftActorCriticSettings(hidden=(8,), critics=3, layer_norm=True)
    learners = [SoftActorCriticLearner(settings, 2, 1, torch.Generator().manual_seed(k)) for k in range(2)]
    batch = {"observation": torch.randn(16, 2), "next_observation": torch.randn(16, 2), "action": torch.rand(16, 1)}
    batch = {**batch, "reward": torch.randn(16), "goes_on": torch.ones(16)}
    learners[0].update_critics(batch)
    learners[0].update_actor(batch)
    learners[1].load_state_dict(learners[0].state_dict())
    for learner in learners:
        learner.update_critics(batch)
        learner.update_actor(batch)
    for name, mine in learners[0].critics.state_dict().items():
        assert torch.equal(mine, learners[1].critics.state_dict()[name])
    assert torch.equal(learners[0].act(batch["observation"]), learners[1].act(batch["observation"]))
    assert math.isfinite(float(learners[0].log_temperature.detach()))


def test_it_goes_on_at_the_rate_that_is_set_now() -> None:
    settings = SoftActorCriticSettings(hidden=(8,), learning_rate=1e-3)
    batch = {"observation": torch.randn(16, 2), "next_observation": torch.randn(16, 2), "action": torch.rand(16, 1)}
    batch = {**batch, "reward": torch.randn(16), "goes_on": torch.ones(16)}
    before = SoftActorCriticLearner(settings, 2, 1, torch.Generator().manual_seed(0))
    before.update_critics(batch)
    before.update_actor(batch)
    learner = SoftActorCriticLearner(replace(settings, learning_rate=1e-12), 2, 1, torch.Generator().manual_seed(0))
    learner.load_state_dict(before.state_dict())
    assert [group["lr"] for o in learner._optimisers() for group in o.param_groups] == [1e-12] * 3
    learner.update_critics(batch)
    learner.update_actor(batch)
    for mine, theirs in ((learner.actor, before.actor), (learner.critics, before.critics)):
        for now, then in zip(mine.parameters(), theirs.parameters()):
            torch.testing.assert_close(now, then, rtol=0.0, atol=1e-7)
    assert torch.allclose(learner.log_temperature, before.log_temperature, rtol=0.0, atol=1e-7)


def test_more_drawn_critics_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="drawn_critics: 3 is not allowed"):
        SoftActorCriticSettings(critics=2, drawn_critics=3)


def test_bounded_targets_are_what_rewards_can_add_up_to() -> None:
    torch.manual_seed(4)
    batch = {
        "observation": torch.randn(64, 3),
        "next_observation": torch.randn(64, 3),
        "action": torch.rand(64, 2),
        "reward": torch.zeros(64),
        "goes_on": torch.ones(64),
    }
    losses = {}
    for bounded in (False, True):
        settings = SoftActorCriticSettings(hidden=(8,), gamma=0.9, entropy_backup=False, bounded=bounded)
        learner = SoftActorCriticLearner(settings, 3, 2, torch.Generator().manual_seed(0))
        with torch.no_grad():
            learner.targets.biases[-1].fill_(20.0)  # nobody can earn that
            learner.critics.biases[-1].zero_()
            learner.critics.weights[-1].zero_()
        losses[bounded] = float(learner.update_critics(batch)["critic"])
    assert losses[False] > 100.0
    assert losses[True] == 0.0


def test_bounds_are_refused_where_there_are_none() -> None:
    with pytest.raises(ValueError, match="bounded: true is not allowed"):
        SoftActorCriticSettings(bounded=True)


def test_critics_begin_where_they_are_told() -> None:
    torch.manual_seed(5)
    settings = SoftActorCriticSettings(hidden=(16,), critics=3, start_value=-30.0)
    learner = SoftActorCriticLearner(settings, 3, 2, torch.Generator().manual_seed(0))
    values = learner.critics(torch.randn(50, 3), torch.rand(50, 2))
    assert (values + 30.0).abs().max() < 3.0
    assert torch.equal(
        learner.targets(torch.zeros(1, 3), torch.zeros(1, 2)), learner.critics(*torch.zeros(1, 5).split([3, 2], 1))
    )
