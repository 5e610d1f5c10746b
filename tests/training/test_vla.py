"""Vision-language-action policies: supervised, then by their own trials, resumed, and in a policy file."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from rlstack.data.bags import write_bag
from rlstack.data.lerobot import Dataset
from rlstack.data.replay.storage import SPEC_FILE
from rlstack.demonstrations.recording import Choice, record
from rlstack.errors import UserError
from rlstack.interfaces.instruction import encoded
from rlstack.policies import load_policy
from rlstack.sim.visual_randomization import AppearanceRange
from rlstack.tasks.catalog.arm_push import PushTask
from rlstack.tasks.catalog.table_push import TablePushTask
from rlstack.tasks.core.curriculum import SuccessCurriculum
from rlstack.tasks.core.image_streams import CameraRange
from rlstack.training.algorithms.vla_dagger import VLADAgger, VLADAggerSettings, shown_by
from rlstack.training.algorithms.vla_grpo import VLAGRPO, VLAGRPOSettings
from rlstack.training.algorithms.vla_ppo import VLAPPO, VLAPPOSettings
from rlstack.training.algorithms.vla_rejection import VLARejection, VLARejectionSettings
from rlstack.training.algorithms.vla_sft import VLASFT, VLASFTSettings
from rlstack.training.export import PolicyGraph, TorchPolicy, export_policy, make_contract
from rlstack.training.language import corrections, demonstrations
from rlstack.training.language.actor import Seen
from rlstack.training.language.checkpoints.opening import CheckpointSettings
from rlstack.training.language.network_settings import NetworkSettings
from rlstack.training.language.supervised import Known, Lesson
from rlstack.training.recipe import load_recipe
from rlstack.training.run_files import RECIPE
from rlstack.training.run_folder import save_checkpoint
from tests.support.arms import small_panda

PANDA = small_panda(16)
TASK = TablePushTask(episode_s=1.0, pictures=CameraRange(look=AppearanceRange(shadows=0.0)))
SMALL = NetworkSettings(channels=(8, 8), points=4, width=16, heads=2, layers=1, decoder_layers=1)
SFT = VLASFTSettings(network=SMALL, demonstrations=2, batch=16)
LOSSES = ("actions", "labels", "places")


@pytest.fixture(autouse=True)
def few_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstack.tasks.manipulator.environment.STARTS", 32)


def environment(count: int = 4, task: Any = TASK) -> Any:
    torch.manual_seed(0)
    return task.environment(PANDA, task.pipeline(PANDA), count, "cpu", 0)


def supervised(settings: VLASFTSettings = SFT) -> VLASFT:
    return VLASFT(settings, environment(task=replace(TASK, episode_s=4.0)))


def pretrained(folder: Path, head: Any = "tokens") -> str:
    """Return a run whose policy has learned nothing."""
    save_checkpoint(folder, {"algorithm": supervised(replace(SFT, head=head)).state_dict()})
    return str(folder)


def test_learns_demonstrations_and_resumes_exactly(tmp_path: Path) -> None:
    one = supervised()
    one.open(tmp_path)
    assert one.iterate(0.0).scalars.keys() == {"loss/labels", "loss/places"}  # at first it learns where things are
    losses = [one.iterate(k / 12).scalars["loss/actions"] for k in range(4, 8)]
    assert losses[-1] < 0.95 * losses[0]
    other = supervised()
    other.load_state_dict(one.state_dict())
    other.open(tmp_path)  # the demonstrations are there
    assert other.iterate(0.5).scalars == one.iterate(0.5).scalars


def test_demonstrations_show_the_experts_actions_without_its_noise(tmp_path: Path) -> None:
    one = supervised(settings=replace(SFT, demonstrations=1, stray=0.5))
    one.open(tmp_path)
    shown = one._shown
    assert shown is not None
    assert (shown.action.abs() <= 1.0).all() and shown.inside.min() >= 0.0
    # saturated where the expert is far away, whatever the noise
    assert (shown.action[0].abs().max(dim=1)[0] > 0.99).all()
    ways = {tuple(row) for row in shown.inside.tolist()}
    assert (1.0, 1.0, 1.0, 1.0) in ways and (1.0, 0.0, 0.0, 0.0) in ways, "later actions answer noise where there is"
    assert (shown.tokens[0] > 1.0).sum() >= 3  # known words
    assert shown.labels[:, 3:5].norm(dim=1)[0] == pytest.approx(10.0 * TASK.push_m, abs=0.01)  # the goal, dm
    assert shown.images(np.array([0])).float().std() > 1.0


def test_starts_of_trials_teach_where_things_are_and_no_action(tmp_path: Path) -> None:
    one = supervised(replace(SFT, stills=9))
    one.open(tmp_path)
    assert one._shown is not None
    _, stills = one._shown.folders
    replay = demonstrations.ChunkReplay([stills], one.policy)
    assert 9 <= len(replay) <= 12 and len(torch.unique(replay.places.flatten(1), dim=0)) == len(replay)
    across = replay.state[:, 1] + replay.labels[:, 1]  # of the block, to the left, as images show it to the right
    assert np.corrcoef(across, replay.places[:, 0, 0, 0])[0, 1] > 0.9, "places are of the images beside them"
    assert replay.inside.sum() == 0.0 and replay.images(np.arange(4)).float().std() > 0.0
    assert one.iterate(0.5).scalars.keys() == {f"loss/{name}" for name in LOSSES}
    draw = torch.Generator()
    demonstrations.record_stills(one.environment, one.policy, stills, 9, 0, draw)  # they are there
    assert len(demonstrations.ChunkReplay([stills], one.policy)) == len(replay)


def test_learns_to_see_alone_wherever_the_arm_is(tmp_path: Path) -> None:
    still, moving = (VLASFT(replace(SFT, demonstrations=0, stills=32, wander=n), environment()) for n in (0, 12))
    for one, name in ((still, "still"), (moving, "moving")):
        one.open(tmp_path / name)
        assert one.iterate(0.5).scalars["loss/actions"] == 0.0
    assert still._shown is not None and moving._shown is not None
    height, begun = moving._shown.state[:, 2], still._shown.state[:, 2]  # dm
    assert height.std() > 2.0 * begun.std()
    speed = moving._shown.state[:, 3:6].norm(dim=1)
    assert still._shown.state[:, 3:6].norm(dim=1).max() < 0.02 and speed.max() > 0.1 and speed.min() < 0.02, "m/s"
    across = moving._shown.state[:, 1] + moving._shown.labels[:, 1]
    assert np.corrcoef(across, moving._shown.places[:, 0, 0, 0])[0, 1] > 0.9, "places are of the images beside them"
    with pytest.raises(ValueError, match="demonstrations: 0 is not allowed with dataset, or with stills: 0"):
        replace(SFT, demonstrations=0)
    with pytest.raises(ValueError, match="wander: 3 is not allowed with stills: 0"):
        replace(SFT, wander=3)


def test_learns_what_demo_record_writes(tmp_path: Path) -> None:
    task = replace(TASK, episode_s=4.0)
    # of this seed no action is beyond a limit: of such ones a bag tells the smallest that has the same command
    record(tmp_path / "shown", "table_push", task, PANDA, lambda station: Choice(station.expert()), 1, seed=2)
    settings = replace(SFT, demonstrations=1, dataset=(str(tmp_path / "shown"),), labels=0.0)
    one = VLASFT(settings, environment(1, task))
    one.open(tmp_path)
    shown, frames = one._shown, Dataset(tmp_path / "shown").read(0)
    assert shown is not None and len(shown) == len(frames["action"])
    for ahead in range(settings.chunk):
        np.testing.assert_allclose(
            shown.action[: -settings.chunk, ahead], frames["action"][ahead : ahead - settings.chunk]
        )
    assert shown.inside[-1].tolist() == [1.0, 0.0, 0.0, 0.0]
    images = np.stack([np.asarray(image) for image in frames["observation.images.scene"]])
    assert np.array_equal(shown.images(np.arange(len(shown)))[:, 0].numpy(), images)
    assert (shown.tokens[0] > 1.0).sum() >= 3
    assert one.policy.grounded is not None
    eyes = [*one.policy.grounded.eyes.parameters()]
    before = [weight.detach().clone() for weight in eyes]
    assert np.isfinite(one.iterate(0.5).scalars["loss/actions"])
    assert not any(torch.equal(a, b) for a, b in zip(before, eyes)), "actions alone teach to see"

    # the same as a bag
    write_bag(tmp_path / "bags" / "one", Dataset(tmp_path / "shown"), 0)
    bag = VLASFT(replace(settings, dataset=(str(tmp_path / "bags"),)), environment(1, task))
    bag.open(tmp_path / "from_bag")
    same = bag._shown
    assert same is not None and len(same) == len(shown)
    assert torch.equal(same.tokens, shown.tokens) and torch.equal(same.inside, shown.inside)
    assert torch.allclose(same.action, shown.action, atol=1e-3)
    assert np.array_equal(same.images(np.arange(len(same)))[:, 0].numpy(), images)
    faster = environment(1, replace(task, rate_hz=40.0))
    with pytest.raises(UserError, match=r"has joint_states at 20 Hz, which a dataset at 40 Hz would repeat"):
        VLASFT(replace(settings, dataset=(str(tmp_path / "bags" / "one"),)), faster).open(tmp_path / "faster")

    # a mixture, of which one part was copied before the run was killed
    shutil.copytree(tmp_path / "shown", tmp_path / "more")
    mixed = replace(settings, dataset=(f"{tmp_path / 'more'}:0.2", f"{tmp_path / 'shown'}:0.6"), demonstrations=9)
    run = tmp_path / "run"
    (run / "chunks-0").mkdir(parents=True)
    for file in (tmp_path / "chunks-0").iterdir():
        shutil.copy(file, run / "chunks-0")
    (run / "chunks-0" / "dataset").unlink()
    other = VLASFT(mixed, environment(1, task))
    other.open(run)
    both = other._shown
    assert both is not None and len(both) == 2 * len(shown)
    drawn = both.draw(4000, torch.Generator().manual_seed(0))
    assert (drawn >= len(shown)).float().mean() == pytest.approx(0.75, abs=0.03)
    assert set(drawn.tolist()) == set(range(len(both)))
    index = np.array([len(shown) + 3, 2, len(shown)])
    assert np.array_equal(both.images(index)[:, 0].numpy(), images[[3, 2, 0]])
    shutil.rmtree(tmp_path / "more")  # the run has its own copy
    other.open(run)
    for named, match in (
        (("a:1", "b"), "b has no weight, and others have"),
        (("a:1", "b:0"), "weights must be above 0"),
        (("a:1", "b:1e999"), "weights must be above 0, and finite"),
        (("a:1.2.3",), "a weight is a number"),
        (("a:1", "a:2"), "name each folder once"),
    ):
        with pytest.raises(ValueError, match=match):
            replace(settings, dataset=named)


BY_OFFSETS = replace(SMALL, points=2, looks=3, layers=0, decoder_layers=0, sees_apart=True, offsets=6)


@pytest.mark.parametrize(
    ("head", "scale", "network"),
    [
        ("tokens", 4.0, SMALL),
        ("flow", 1.5, SMALL),
        ("regression", 3.0, replace(BY_OFFSETS, acts_without=("tool_position", "instruction"))),
    ],
)
def test_file_is_the_policy(head: Any, scale: float, network: NetworkSettings, tmp_path: Path) -> None:
    torch.manual_seed(1)
    one = VLASFT(replace(SFT, head=head, chunk=3, network=network), environment(1))
    with torch.no_grad():  # an untrained network hardly depends on what it sees
        for weight in one.policy.parameters():
            weight.mul_(scale)
    graph = PolicyGraph(TASK.pipeline(PANDA), one.actor(), TASK.inputs)
    contract = make_contract("words", "table_push", TASK, PANDA, graph, training={}, evaluation={})
    export_policy(graph, contract, PANDA, tmp_path / "policy.onnx")  # it compares both over 1,000 observations
    policy, twin = load_policy(tmp_path / "policy.onnx", robot=PANDA), TorchPolicy(graph, contract, PANDA)
    rng, joints = np.random.default_rng(0), np.array([drive.rest for drive in PANDA.drives])
    moved = set()
    for text in ("push the red cube to the left", "push the blue tile away"):
        inputs = {"joint_position": joints, "joint_velocity": 0.0 * joints, "instruction": encoded(text)}
        inputs |= {"scene_image": rng.integers(0, 256, (16, 16, 3)), "scene_image_age": np.array([0.05])}
        policy.reset()
        twin.reset()
        for _ in range(7):
            command = policy.step(inputs)["joint_target"]
            same = twin.step({n: a[None] for n, a in inputs.items()})["joint_target"][0]
            np.testing.assert_allclose(command, same, atol=1e-5)
        moved.add(tuple(np.round(command, 4)))
    assert len(moved) == 2, "words or images change the command"


def updated(parts: int) -> tuple[float, float]:
    """Return loss and sum of weights after an update on one batch in some parts."""
    settings = replace(SFT, batch=8 // parts, accumulated=parts, shift=0, brightness=0.0, strange=0.0)
    one = VLASFT(settings, environment(1))
    draw = torch.Generator().manual_seed(0)
    seen = one.policy.seen(torch.rand(8, one.environment.pipeline.size, generator=draw))
    action, known = (
        torch.rand(8, 4, 3, generator=draw),
        (torch.rand(8, 6, generator=draw), torch.rand(8, 1, 1, 2, generator=draw)),
    )
    each = zip(*(part.chunk(parts) for part in (*seen, action, *known)))
    lessons = (Lesson(Seen(*part[:3]), part[3], torch.ones(len(part[3]), 4), Known(*part[4:])) for part in each)
    losses = one.learner.update(lessons, 0.5)
    assert losses["labels"] > 0.0
    return losses["actions"].item(), sum(weight.detach().abs().sum().item() for weight in one.policy.parameters())


def test_accumulated_gradients_are_those_of_the_whole_batch() -> None:
    assert updated(2) == pytest.approx(updated(1), rel=1e-5)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        (VLAPPO, VLAPPOSettings(network=SMALL, rollout=3, warm_up=1, batch=8, kl=0.1, progress=0.5, fixed_eyes=True)),
        (
            VLAGRPO,
            VLAGRPOSettings(network=SMALL, head="flow", exploration="sde_step", group=2, batch=8, curriculum=True),
        ),
        (VLARejection, VLARejectionSettings(network=SMALL, batch=8)),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else "",
)
def test_goes_on_from_a_run_and_resumes_exactly(
    algorithm: Any, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # so short an episode has no success: every other robot's counts
    module = "rlstack.training.language.rollouts"
    original = __import__(module, fromlist=["Rollouts"]).Rollouts.collect

    def lucky(self: Any, *arguments: Any, **options: Any) -> Any:
        chunks = original(self, *arguments, **options)
        won = chunks.done & (torch.arange(chunks.done.shape[1]) % 2 == 0)
        return replace(chunks, success=won, reward=won.float())

    monkeypatch.setattr(f"{module}.Rollouts.collect", lucky)
    settings = replace(settings, pretrained=pretrained(tmp_path, settings.head))
    one = algorithm(settings, environment())
    one.open(None)
    before = [weight.clone() for weight in one.policy.parameters()]
    torch.testing.assert_close(before, [*supervised(replace(SFT, head=settings.head)).policy.parameters()])
    for k in range(2):
        result = one.iterate(0.2 * k)
    assert any(not torch.equal(a, b) for a, b in zip(before, one.policy.parameters()))
    assert np.isfinite(list(result.logged().values())).all()
    state = one.state_dict()
    after = one.iterate(0.5).logged()
    other = algorithm(replace(settings, pretrained="gone"), environment())
    other.load_state_dict(state)
    other.open(None)
    assert other.iterate(0.5).logged() == after
    torch.testing.assert_close([*one.policy.parameters()], [*other.policy.parameters()])
    seen = one.environment.observe()[0]
    torch.testing.assert_close(one.actor().plan(seen), one.policy.eval().plan(seen))


def test_an_expert_corrects_the_policys_own_trials_and_a_run_resumes_exactly(tmp_path: Path) -> None:
    run, mine, copied = (tmp_path / name for name in ("run", "mine", "copied"))
    run.mkdir()
    settings = VLADAggerSettings(network=SMALL, batch=8, updates=2, stills=4, beta=0.5, pretrained=pretrained(run))
    one = VLADAgger(settings, environment())
    one.open(mine)
    first = one.iterate(0.0)
    assert first.scalars.keys() == {
        "train/success",
        *(f"loss/{a}" for a in LOSSES),
        *(f"loss/stills_{a}" for a in LOSSES[1:]),
    }
    assert one.own is not None
    taught = one.own.draw(64, torch.Generator().manual_seed(0)).inside
    assert taught[:, 0].all() and set(taught[:, 1:].sum(dim=1).tolist()) == {0.0, 3.0}, "of the policy's the first one"
    for folder in (demonstrations.FOLDER, corrections.FOLDER):  # as if the run had shown as much, and tried as much
        shutil.copytree(mine / corrections.FOLDER, run / folder)
    count = len(one.own)
    one.close()
    one.open(mine)
    assert one._shown is not None and len(one._shown) == 2 * count
    one.iterate(0.2)
    state = one.state_dict()
    one.close()
    shutil.copytree(mine, copied)
    one.open(mine)
    after = one.iterate(0.5).logged()
    other = VLADAgger(settings, environment())
    other.load_state_dict(state)
    other.open(copied)
    assert other.iterate(0.5).logged() == after
    torch.testing.assert_close([*one.policy.parameters()], [*other.policy.parameters()])
    one.close()
    other.close()
    fixed = VLADAgger(replace(settings, shift=0, brightness=0.0, fixed_eyes=True), environment())
    fixed.open(None)
    assert fixed.policy.grounded is not None
    eyes, before = fixed.policy.grounded.eyesight(), [one.clone() for one in fixed.policy.trained()]
    held = [one.clone() for one in eyes]
    assert fixed.iterate(0.2).scalars.keys() == {
        "train/success",
        *(f"loss/{a}" for a in ("actions", "labels", "stills_labels")),
    }
    assert all(map(torch.equal, eyes, held)) and not any(map(torch.equal, fixed.policy.trained(), before))
    fixed.close()
    with pytest.raises(UserError, match="fixed_eyes"):
        VLADAgger(replace(settings, fixed_eyes=True), environment())
    for folder in (demonstrations.FOLDER, corrections.FOLDER):
        shutil.rmtree(run / folder)
    with pytest.raises(UserError, match=r"the demonstrations of .* are gone"):
        other.open(copied)


def test_a_run_learns_from_all_runs_before_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first / demonstrations.FOLDER, second / corrections.FOLDER):
        folder.mkdir(parents=True)
        (folder / SPEC_FILE).touch()
    recipe = yaml.safe_load(Path("policies/table_suite_dagger.yaml").read_text())
    recipe["algorithm_settings"]["pretrained"] = str(first)
    (second / RECIPE).write_text(yaml.safe_dump(recipe))
    assert shown_by(str(second)) == [second / corrections.FOLDER, first / demonstrations.FOLDER]
    assert shown_by("") == shown_by(str(tmp_path / "policy.onnx")) == []


def test_one_policy_learns_the_whole_suite_and_goes_on_by_trying(tmp_path: Path) -> None:
    shown, tried = load_recipe("table_suite"), load_recipe("table_suite_ppo")
    assert replace(tried.task_settings, ends=False) == shown.task_settings
    corrected = load_recipe("table_suite_dagger")
    assert corrected.task_settings == shown.task_settings
    for after in (corrected, tried):
        assert after.algorithm_settings.network == shown.algorithm_settings.network
    task = replace(shown.task_settings, kinds=("pick",))
    small = replace(SMALL, points=3, looks=3)
    few = {"network": small, "demonstrations": 2, "stills": 4, "batch": 8, "told": 1, "told_batch": 8, "processes": 1}
    one = VLASFT(replace(shown.algorithm_settings, **few), environment(task=task))
    one.open(tmp_path)
    scalars = one.iterate(0.5).scalars
    seen = {"loss/labels", "loss/places", "loss/distance", "loss/looks", "loss/actions"}
    assert scalars.keys() == seen | {"loss/told_labels", "loss/told_actions"}
    assert np.isfinite([*scalars.values()]).all()
    save_checkpoint(tmp_path, {"algorithm": one.state_dict()})
    fine = replace(small, fine=True)  # the weights are the same
    settings = replace(tried.algorithm_settings, network=fine, pretrained=str(tmp_path), rollout=2, warm_up=0)
    other = VLAPPO(settings, environment(task=tried.task_settings))
    other.open(None)
    assert np.isfinite([*other.iterate(0.0).logged().values()]).all()
    assert other.rollouts.observation is not None
    assert other.rollouts.observation[:, -300:].max() == 0.0, "nothing is rendered: the simulator tells"
    (action, *_) = one.policy.plan(other.rollouts.observation)
    assert action.shape == (4, 5), "x, y, z, yaw, gripper"
    resumed = VLAPPO(settings, environment(task=tried.task_settings))
    resumed.load_state_dict(other.state_dict())
    assert resumed.iterate(0.5).logged() == other.iterate(0.5).logged()
    other.iterate(1.0)
    assert other.rollouts.observation[:, -300:].max() > 50.0
    settings = VLAGRPOSettings(
        head="regression", network=fine, pretrained=str(tmp_path), group=2, blind=0.5, fixed_eyes=True
    )
    grouped = VLAGRPO(settings, environment(task=replace(tried.task_settings, episode_s=0.4)))
    grouped.open(None)
    for done, darkest in ((0.0, True), (0.5, False)):
        assert np.isfinite([*grouped.iterate(done).logged().values()]).all()
        assert grouped.rollouts.observation is not None
        assert (grouped.rollouts.observation[:, -300:].max() == 0.0) == darkest


def test_trials_without_images_are_by_what_the_simulator_tells_and_later_ones_have_images(tmp_path: Path) -> None:
    recipe = load_recipe("table_suite_dagger")
    small = replace(SMALL, points=3, looks=3)
    first = VLASFT(replace(SFT, head="regression", network=small), environment(task=recipe.task_settings))
    save_checkpoint(tmp_path / "first", {"algorithm": first.state_dict()})
    few = {"network": small, "updates": 1, "told": 2, "told_batch": 8, "batch": 8, "stills": 4, "blind": 0.5}
    task = replace(recipe.task_settings, episode_s=0.4)
    settings = replace(recipe.algorithm_settings, **few, pretrained=str(tmp_path / "first"))
    one = VLADAgger(settings, environment(task=task))
    one.open(tmp_path)
    eyes = [weight.clone() for weight in one.policy.network.eyes.parameters()]  # type: ignore[union-attr]
    scalars = one.iterate(0.0).scalars
    assert {name for name in scalars if name.startswith("loss/")} == {"loss/told_labels", "loss/told_actions"}
    assert one.unseen is not None and one.own is not None
    assert (len(one.unseen), len(one.own)) == (8, 0), "two chunks of each of 4 robots"
    (black,) = {int(part.max()) for part in one.environment.observe()[0][:, -100:]}
    assert black == 0
    changed = [not torch.equal(a, b) for a, b in zip(eyes, one.policy.network.eyes.parameters())]  # type: ignore[union-attr]
    names = [name for name, _ in one.policy.network.eyes.named_parameters()]  # type: ignore[union-attr]
    assert not any(turned for turned, name in zip(changed, names) if "layers" in name or "point." in name)
    resumed = VLADAgger(settings, environment(task=task))
    resumed.load_state_dict(one.state_dict())
    one.close()
    resumed.open(tmp_path)
    scalars = resumed.iterate(0.5).scalars
    assert {"loss/actions", "loss/stills_looks", "loss/told_actions"} < scalars.keys()
    assert resumed.own is not None and len(resumed.own) == 8
    assert resumed.environment.observe()[0][:, -300:].max() > 50.0
    resumed.close()


def test_refuses_to_tell_what_a_network_does_not_see_or_a_task_does_not_know() -> None:
    suite = load_recipe("table_suite").task_settings
    with pytest.raises(UserError, match=r"told: 2 is not allowed.*points: 3, looks: 3"):
        VLASFT(replace(SFT, told=2), environment(task=suite))
    with pytest.raises(UserError, match=r"points: 2 is not allowed: this task tells where 3 things are"):
        VLASFT(replace(SFT, network=replace(SMALL, points=2)), environment(task=suite))
    with pytest.raises(UserError, match=r"looks: 2 is not allowed.*3 numbers.*set looks to 3 and points to 3"):
        VLASFT(replace(SFT, network=replace(SMALL, looks=2)), environment(task=suite))
    with pytest.raises(UserError, match="offsets: 3 is not allowed: this task's simulator tells 6 such numbers: set"):
        VLASFT(replace(SFT, network=replace(BY_OFFSETS, offsets=3)), environment(1))
    with pytest.raises(UserError, match="acts_without: 'tool' is not allowed: choose from tool_position, "):
        VLASFT(replace(SFT, network=replace(BY_OFFSETS, acts_without=("tool",))), environment(1))
    with pytest.raises(ValueError, match=r"blind: 0\.5 is not allowed with told: 0"):
        VLADAggerSettings(blind=0.5)
    with pytest.raises(ValueError, match="blind: 1 is not allowed without fixed_eyes: true and looks"):
        VLAPPOSettings(blind=1.0, fixed_eyes=True)
    with pytest.raises(ValueError, match="blind: 1 is not allowed without fixed_eyes: true and looks"):
        VLAGRPOSettings(blind=1.0)
    with pytest.raises(ValueError, match="told: 1 is not allowed with accumulated: 2: set it to 1"):
        VLASFTSettings(told=1, accumulated=2)


def test_says_at_once_what_teaches_nothing_without_labels() -> None:
    settings = load_recipe("table_push").algorithm_settings
    off = [f"--algorithm-settings.{name} 0" for name in ("labels", "stills", "told", "network.looks")]
    off += ["--algorithm-settings.network.offsets 0", "--algorithm-settings.network.sees_apart False"]
    told = r"labels: 3, stills: 16000, told: 4, network.looks: 3, .*offsets: 6, .*sees_apart: true is not .*: give "
    with pytest.raises(ValueError, match=told + " ".join(off) + "; or go on from a policy that sees"):
        replace(settings, dataset=("shown",))
    with pytest.raises(ValueError, match=r"not allowed with labels: 0, .*: give " + " ".join(off[1:]) + ", or labels"):
        replace(settings, labels=0.0)
    with pytest.raises(ValueError, match=r"places: 0 is not allowed with network.looks: 3: .*Set places above 0"):
        replace(settings, places=0.0)
    blind = replace(settings.network, looks=0, offsets=0, sees_apart=False)
    replace(settings, dataset=("shown",), labels=0.0, stills=0, told=0, network=blind)
    replace(settings, labels=0.0, stills=0, told=0, network=blind)
    replace(settings, dataset=("shown",), told=0, checkpoint=CheckpointSettings(folder="smolvla"))
    VLADAggerSettings(labels=0.0, network=settings.network)  # it goes on from a policy that sees


def test_groups_begin_alike() -> None:
    env = environment()
    env.restart_alike(2)
    scene = env.scene
    for array in (scene.goal, scene.asked["instruction"], scene.asked["beside_position"], env.worlds.joint_position):
        assert np.array_equal(array[0], array[1]) and np.array_equal(array[2], array[3])
    assert not np.array_equal(scene.goal[0], scene.goal[2])
    env.restart(torch.arange(4))
    assert not np.array_equal(scene.goal[0], scene.goal[1])
    env.curriculum = SuccessCurriculum(env.trial_kinds, 4)
    env.restart_alike(2)
    assert env.curriculum.kind[0] == env.curriculum.kind[1] and np.array_equal(scene.goal[0], scene.goal[1])
    way = (scene.goal - scene.handled())[:, :2]
    turns = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    np.testing.assert_allclose(way, TASK.push_m * turns[env.curriculum.kind // 4], atol=1e-6)


def test_progress_adds_up_to_what_the_object_came_nearer_to_its_goal() -> None:
    env = environment(2, replace(TASK, episode_s=4.0, disturbed_m=9.0))  # falling on a block ends none
    env.autoreset = False
    one = VLAPPO(VLAPPOSettings(network=SMALL, temperature=4.0), env)

    def left() -> torch.Tensor:
        return 10.0 * (env.achieved_goal() - env.desired_goal()).norm(dim=-1)

    one.rollouts.begin()
    env.scene.worlds.place(np.arange(2), "object", np.array([[0.45, 0.0, 0.2], [0.5, 0.1, 0.2]]), np.eye(4)[[3, 3]])
    before = left()
    chunks = one.rollouts.collect(2)
    assert chunks.inside.all() and (before - left()).abs().min() > 1e-3  # no episode ends, and they fall
    torch.testing.assert_close(chunks.nearer.sum(dim=0), before - left())


def test_refuses_what_it_cannot_go_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(settings: VLAPPOSettings) -> None:
        VLAPPO(settings, environment(1)).open(None)

    with pytest.raises(UserError, match="pretrained: is empty: name the folder"):
        opened(VLAPPOSettings(network=SMALL))
    (tmp_path / "run").mkdir()
    run = pretrained(tmp_path / "run")
    with pytest.raises(UserError, match=r"tensors differ, first 'head\.logits\.bias'"):
        opened(VLAPPOSettings(network=SMALL, bins=11, pretrained=run))
    (tmp_path / "other").mkdir()
    save_checkpoint(tmp_path / "other", {"algorithm": {"actor": {}}})
    with pytest.raises(UserError, match="no policy with an instruction"):
        opened(VLAPPOSettings(network=SMALL, pretrained=str(tmp_path / "other")))
    with pytest.raises(UserError, match="exploration: sde is not allowed with a head that is no flow"):
        opened(VLAPPOSettings(network=SMALL, exploration="sde", pretrained=run))
    with pytest.raises(UserError, match="fixed_eyes: true is not allowed with places is above 0"):
        opened(VLAPPOSettings(network=SMALL, fixed_eyes=True, places=0.3, pretrained=run))
    with pytest.raises(UserError, match="group: 3 is not allowed"):
        VLAGRPO(VLAGRPOSettings(network=SMALL, group=3), environment(4))
    env = environment(1)
    monkeypatch.setattr("rlstack.training.demonstrations.ScriptedEnvironment", SuccessCurriculum)
    with pytest.raises(
        UserError, match=r"vla_dagger is not allowed: TablePushTask has no scripted expert.* choose vla_ppo"
    ):
        VLADAgger(VLADAggerSettings(network=SMALL), env)
    monkeypatch.undo()
    pushing = PushTask()
    with pytest.raises(UserError, match="does not end with an instruction and images"):
        VLASFT(SFT, pushing.environment(PANDA, pushing.pipeline(PANDA), 1, "cpu", 0))
