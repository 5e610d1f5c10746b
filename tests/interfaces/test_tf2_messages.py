"""tf2_msgs is really generated, compiled and spoken by two processes, in an environment's folder of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from rlstack.errors import UserError
from rlstack.interfaces import interface_packages, tf2_messages
from tests.support.checkout import ROOT

HEAR = """
import sys, time
import rclpy
from tf2_msgs.msg import TFMessage
import tf2_msgs
assert tf2_msgs.__file__.startswith(sys.argv[1]), tf2_msgs.__file__
rclpy.init()
node = rclpy.create_node("ear")
heard = []
node.create_subscription(TFMessage, "/tf", heard.append, 10)
end = time.monotonic() + 60.0
while not heard and time.monotonic() < end:
    rclpy.spin_once(node, timeout_sec=0.1)
moved = heard[0].transforms[0]
print(moved.header.frame_id, moved.child_frame_id, moved.transform.translation.x)
print(node.get_publishers_info_by_topic("/tf")[0].topic_type_hash)
rclpy.shutdown()
"""

SAY = """
import multiprocessing, time

def say():
    import rclpy
    from geometry_msgs.msg import TransformStamped
    from tf2_msgs.msg import TFMessage
    rclpy.init()
    node = rclpy.create_node("mouth")
    publisher = node.create_publisher(TFMessage, "/tf", 10)
    moved = TransformStamped(child_frame_id="base_link")
    moved.header.frame_id = "odom"
    moved.transform.translation.x = 1.5
    end = time.monotonic() + 60.0
    while publisher.get_subscription_count() == 0 and time.monotonic() < end:
        time.sleep(0.02)
    while publisher.get_subscription_count() > 0 and time.monotonic() < end:
        publisher.publish(TFMessage(transforms=[moved]))
        time.sleep(0.1)
    rclpy.shutdown()

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=say)
    child.start()
    child.join()
    raise SystemExit(child.exitcode)
"""


def make(prefix: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rlstack.interfaces.tf2_messages", "--prefix", str(prefix), *options],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=150,
    )


CAN_COMPILE = pytest.mark.skipif(
    shutil.which("c++") is None or not (Path(sysconfig.get_path("include")) / "Python.h").is_file(),
    reason="needs a C++ compiler and Python's headers",
)


@CAN_COMPILE
@pytest.mark.integration
def test_what_is_made_carries_messages_between_processes_and_goes_without_a_trace(tmp_path: Path) -> None:
    prefix = tmp_path / "environment"
    for _ in range(2):  # the second replaces the first
        done = make(prefix)
        assert done.returncode == 0, done.stderr
    site = interface_packages.site_packages(prefix)
    assert (prefix / "share" / "tf2_msgs" / "msg" / "TFMessage.msg").is_file()
    assert not [path for path in prefix.iterdir() if path.name.startswith(".")]

    (tmp_path / "say.py").write_text(SAY)
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))}
    with subprocess.Popen([sys.executable, str(tmp_path / "say.py")], env=variables) as saying:
        heard = subprocess.run(
            [sys.executable, "-c", HEAR, str(site)], env=variables, capture_output=True, text=True, timeout=100
        )
    assert heard.returncode == 0, heard.stderr
    assert heard.stdout.splitlines() == ["odom base_link 1.5", tf2_messages.TYPE_HASH]
    assert saying.returncode == 0

    assert interface_packages.remove(tf2_messages.PACKAGE, prefix)
    assert not [path for path in prefix.rglob("*") if path.is_file()]
    assert not interface_packages.remove(tf2_messages.PACKAGE, prefix)


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path) -> None:
    done = make(tmp_path / "environment", PATH=str(tmp_path), CC="", CXX="")
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert "no compiler" in sentence and "apt install g++" in sentence and tf2_messages.PACKAGE.command in sentence
    assert not (tmp_path / "environment").exists()


@CAN_COMPILE
def test_a_failed_compilation_leaves_nothing(tmp_path: Path) -> None:
    done = make(tmp_path, CXX="false")
    assert done.returncode == 2 and "failed" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@CAN_COMPILE
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"Cannot install tf2_msgs in .*file"):
        interface_packages.generate(tf2_messages.PACKAGE, tmp_path / "file")


def test_where_it_is_already_nothing_is_made() -> None:
    if not tf2_messages.PACKAGE.is_installed():
        pytest.skip("this environment has no tf2_msgs")
    done = subprocess.run(
        [sys.executable, "-m", "rlstack.interfaces.tf2_messages"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "tf2_msgs is installed.\n")


@CAN_COMPILE
@pytest.mark.integration
def test_set_up_says_once_why_it_leaves_tf_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    (interface_packages.site_packages(tmp_path / "venv") / "here.pth").write_text(str(ROOT / "src"))
    spec = importlib.util.spec_from_file_location("environment", ROOT / "tools" / "environment.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    for said in (1, 0):
        environment = tool.Environment(tmp_path / "venv", {"ros"})
        environment.wanted = {"ros"}  # whatever this machine is
        environment.stamps.mkdir(exist_ok=True)
        environment.make_messages()
        assert capfd.readouterr().err.count("rosidl, which makes tf2_msgs, is not in this Python's environment") == said
    environment.wanted = {"sim"}
    (environment.stamps / "tf2_msgs").unlink()
    environment.make_messages()
    assert capfd.readouterr() == ("", "")
