"""The train node with real training: progress on topics, a policy at the end, and every way to stop it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rlstack.bringup.node_process import Process
from rlstack.bringup.train import train_system
from rlstack.errors import UserError
from rlstack.nodes import train
from rlstack.nodes.shutdown import shut_down
from rlstack.policies import load_policy

pytestmark = [pytest.mark.integration, pytest.mark.timeout(150)]

SMALL = ("steps=16384", "envs=128", "selection.episodes=8")
LONG = ("steps=50000000", "envs=128", "selection.episodes=8")


def start(folder: Path, overrides: tuple[str, ...], **parameters) -> subprocess.Popen[str]:
    (process,) = train_system(out=folder, overrides=overrides, fly=False).processes
    command = Process(name="train", module=process.module, parameters={**process.parameters, **parameters}).command()
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Listener:
    """Hears the node's progress and may ask it to stop."""

    def __init__(self) -> None:
        import rclpy
        from rclpy.context import Context
        from std_msgs.msg import String
        from std_srvs.srv import Trigger

        from rlstack.interfaces import topics

        self.context = Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node("listener", context=self.context)
        self.heard: list[dict] = []
        self.node.create_subscription(
            String, train.PROGRESS, lambda m: self.heard.append(json.loads(m.data)), topics.quality("latched")
        )
        self.stopper = self.node.create_client(Trigger, train.STOP)
        self.executor = rclpy.executors.SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def until(self, condition, process: subprocess.Popen[str], seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"did not happen within {seconds:g} s"
            assert process.poll() is None, process.communicate()[0]
            self.executor.spin_once(timeout_sec=0.1)

    def stop(self):
        from std_srvs.srv import Trigger

        answer = self.stopper.call_async(Trigger.Request())
        self.executor.spin_until_future_complete(answer, timeout_sec=10.0)
        return answer.result()

    def close(self) -> None:
        self.executor.shutdown()
        shut_down(self.node)


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


def child_of(process: subprocess.Popen[str]) -> int:
    """The training process, which is the one that is not multiprocessing's resource tracker."""
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    raise AssertionError("no training process")


def gone(pid: int, seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_it_tells_its_progress_and_leaves_a_policy(tmp_path, listener):
    process = start(tmp_path / "run", SMALL, seed=3)
    listener.until(lambda: listener.heard and listener.heard[-1]["steps"] >= 16384, process)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    last = listener.heard[-1]
    assert last["total_steps"] == last["steps"]
    assert {"steps_per_s", "reward_per_s", "success", "seconds_left"} <= last.keys()
    policy = load_policy(tmp_path / "run" / "policy.onnx")
    assert policy.contract.training["seed"] == 3


def test_the_stop_service_saves_and_says_how_to_go_on(tmp_path, listener):
    process = start(tmp_path / "run", LONG)
    listener.until(lambda: listener.heard, process)
    answer = listener.stop()
    assert answer.success, answer.message
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2  # no next stage starts
    assert f"`rlstack train --resume {tmp_path / 'run'}` goes on" in output
    assert (tmp_path / "run" / "checkpoint.pt").is_file()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_training_outlives_its_node(tmp_path, listener, number):
    process = start(tmp_path / "run", LONG)
    listener.until(lambda: listener.heard, process)
    training = child_of(process)
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == (-9 if number == signal.SIGKILL else 0)
    assert gone(training)
    assert (tmp_path / "run" / "checkpoint.pt").is_file()


def test_a_bad_order_is_refused_in_one_sentence(tmp_path):
    process = start(tmp_path / "run", ("evns=16",))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Unknown key 'evns'. Nearest: envs" in output and "Traceback" not in output
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("recipe", "overrides", "said"),
    [
        ("quadrotor_hovr", (), "Unknown recipe 'quadrotor_hovr'. Nearest: quadrotor_hover"),
        ("quadrotor_hover", ("envs=0",), "envs: 0 is not allowed"),
        ("quadrotor_hover", ("selection.episodes=many",), "selection.episodes: 'many' is not allowed"),
        ("quadrotor_hover", ("name.x=16",), "'name.x' is not a recipe field"),
        ("quadrotor_hover", ("envs=[16",), "The value of the override 'envs=[16' is not valid YAML"),
    ],
)
def test_what_the_recipe_does_not_allow_is_refused(tmp_path, recipe, overrides, said):
    with pytest.raises(UserError, match=re.escape(said)):
        train.recipe_for(train.TrainingRequest(recipe, tmp_path, -1, overrides))


def test_overrides_reach_the_recipe(tmp_path):
    order = train.TrainingRequest("quadrotor_hover", tmp_path, 7, ("envs=16", "task_settings.starts.tilt_rad=0.5"))
    recipe = train.recipe_for(order)
    assert (recipe.seed, recipe.envs, recipe.task_settings.starts.tilt_rad) == (7, 16, 0.5)


@pytest.mark.parametrize("text", ["envs=16", "{}", '["envs"]', "[1]", ""])
def test_overrides_that_are_no_list_of_fields_are_refused(text):
    with pytest.raises(UserError, match="must be a JSON list"):
        train.override_words(text)
