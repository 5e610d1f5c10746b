from __future__ import annotations

from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.files import write_json
from rlstack.policies import find_policy, load_policy, released_policies, write_policy
from rlstack.policies.released import released, writable_copy
from rlstack.policies.released_table import describe_released
from tests.policies.graphs import mlp_contract, mlp_model


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with one more released policy."""
    folder = tmp_path / "share"
    (folder / "policies" / "mine").mkdir(parents=True)
    write_policy(mlp_model(), mlp_contract(), folder / "policies" / "mine" / "policy.onnx")
    axes = {"observation_delay_s": {"margin": 0.03}, "mass_scale": {"margin": 1.3}, "drag_scale": {"margin": None}}
    asked = {"success": 0.95}
    columns = {
        "batch": {"success": 1.0, "asked": asked},
        "mujoco (topics)": {"success": 0.97, "asked": asked},
        "batch, other maps": {"success": 0.28, "asked": {}},  # not judged
        "batch, no instruction": {"success": 0.0, "asked": {"success": 0.1}},  # at most
    }
    record = {"robot": "crazyflie", "passed": True, "backends": columns, "reality": {"axes": axes}}
    write_json(folder / "policies" / "mine" / "verify.json", record)
    monkeypatch.setenv("RLSTACK_SHARE", str(folder))
    return folder


def test_a_released_policy_is_found_by_name(share: Path) -> None:
    assert find_policy("mine") == share / "policies" / "mine" / "policy.onnx"
    assert load_policy("mine").contract.name == "mlp"
    assert "quadrotor_foundation" in released_policies()  # of the checkout


def test_paths_stay_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quadrotor_foundation").write_text("a file of mine")
    for path in ("policy.onnx", "runs/mine", "./mine", "quadrotor_foundation"):
        assert find_policy(path) == Path(path)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"Unknown policy .* 'quadrotor_fondation'. Nearest: quadrotor_foundation"):
        load_policy("quadrotor_fondation")


def test_a_runs_folder_is_not_taken_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_too").mkdir()
    (tmp_path / "mine_too" / "policy.onnx").touch()
    with pytest.raises(UserError, match=r"mine_too is a folder and no released policy: give mine_too/policy.onnx\."):
        find_policy("mine_too")


def test_a_record_is_not_written_into_the_installation(
    share: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy = writable_copy("mine", "robots/x500.yaml")
    assert copy == Path("runs/mine-x500/policy.onnx")
    assert copy.read_bytes() == find_policy("mine").read_bytes()
    assert writable_copy(copy) == copy


def test_the_table_shows_robot_success_and_margins(share: Path) -> None:
    mine = [one for one in released() if one.name == "mine"]
    assert mine[0].margins == {"observation_delay_s": 0.03, "mass_scale": 1.3}
    text = describe_released(mine)
    for shown in ("mine", "crazyflie", "passed", "97.0% (mujoco (topics))", "observation delay 30 ms", "mass x1.3"):
        assert shown in text
    assert "No policy is released" in describe_released([])
