"""Parallel-safe ROS: every integration test has a domain of its own, on this machine, whoever else is testing."""

from __future__ import annotations

import fcntl
import gc
import os
import random
import re
import secrets
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.ros import Listener

# The same examples in every run: whether a change may land must not depend on chance. "thorough" looks for new ones.
# How long an example takes says nothing where many tests share a machine.
_at_any_pace = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _at_any_pace, max_examples=40, derandomize=True)
settings.register_profile("thorough", _at_any_pace, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))  # where a test does not say how many itself

_DOMAINS = range(1, 101)  # above 101 a domain's ports lie among those that Linux hands out to anyone
_SHARED_MEMORY = Path("/dev/shm")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts its background jobs deaf to Ctrl-C, and children inherit that; tests of Ctrl-C need to be heard.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _verification_key(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Sign verification records with a key of the tests, in the processes that they start, too."""
    path = tmp_path_factory.mktemp("key") / "verification.key"
    path.write_text(secrets.token_hex(32))
    path.chmod(0o600)
    os.environ["RLSTACK_VERIFICATION_KEY"] = str(path)


@pytest.fixture(autouse=True)
def _ordinary_scheduling() -> Iterator[None]:
    """Take back a real-time priority that a test gave to this process, which would starve the others of the suite."""
    yield
    if hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER:
        from rlstack.nodes.real_time import use_ordinary_scheduling

        use_ordinary_scheduling()


_REAL_TIME_FOLDERS = tuple(Path(__file__).parent / name for name in ("hardware", "bringup/checklist"))
_REAL_TIME = (
    *("test_agent.py", "test_autopilot_topics.py", "test_hardware_topics.py", "test_lerobot_topics.py"),
    "test_teleop.py",
)


gc.disable()  # while thousands of tests are collected, none of which goes away


def pytest_collection_finish() -> None:
    """Leave the tests and what they import out of all garbage collection from here on."""
    gc.freeze()
    gc.enable()


_SLOW = tuple(
    line
    for line in (Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests again, up to twice, whose processes must find each other or keep real times, which may be missed.

    Which ones were run again is in pytest's summary.
    """
    # Under xdist, pytest-rerunfailures asks the main process about each of these over TCP: without this, two small
    # messages one after the other wait 40 ms for an acknowledgement, 770 times.
    if (connection := getattr(getattr(config, "failures_db", None), "sock", None)) is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for item in items:
        if item.nodeid.startswith(_SLOW):
            item.add_marker(pytest.mark.slow)
        if _waits(item):
            item.add_marker(pytest.mark.flaky(reruns=2))
    if hasattr(config, "workerinput"):
        items[:] = _mixed(items)


def _mixed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with the files of those that wait, for processes and real time, spread over all others.

    Workers begin with a part of the list each: otherwise one of them would do all of the waiting, and at the end all
    would wait for each other's real time.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    found: list[tuple[float, list[pytest.Item]]] = []
    for waits in (True, False):
        group = [tests for tests in files.values() if any(map(_waits, tests)) is waits]
        total, before = sum(map(len, group)), 0
        for tests in group:
            found.append(((before + 0.5 * len(tests)) / total, tests))
            before += len(tests)
    return [item for _, tests in sorted(found, key=lambda one: one[0]) for item in tests]


def _waits(item: pytest.Item) -> bool:
    return _keeps_real_time(item) or item.get_closest_marker("integration") is not None


def _keeps_real_time(item: pytest.Item) -> bool:
    return item.path.name in _REAL_TIME or any(folder in item.path.parents for folder in _REAL_TIME_FOLDERS)


@contextmanager
def own_domain() -> Iterator[int]:
    """Hold a ROS domain that no other test on this machine holds; the lock goes with the process."""
    folder = Path(tempfile.gettempdir()) / "rlstack-test-domains"
    folder.mkdir(exist_ok=True)
    for domain in random.sample(_DOMAINS, len(_DOMAINS)):
        with open(folder / str(domain), "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _remove_shared_memory(domain)
            yield domain
            return
    raise RuntimeError("Every ROS domain is taken by another test.")


def _remove_shared_memory(domain: int) -> None:
    """Remove what killed processes left of a domain's ports in shared memory.

    Fast DDS takes a port up again that a killed process has left, in whatever state: in a domain that had been used
    so, single topics were never discovered.
    """
    first = 7400 + 250 * domain  # the port numbers of the DDSI-RTPS specification, 9.6.2.3
    for path in _SHARED_MEMORY.glob("*fastrtps_port*"):
        number = re.search(r"port(\d+)", path.name)
        if number and first <= int(number[1]) < first + 250:
            path.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def _ros_environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Give integration tests, and the processes they start, a domain and a log folder of their own."""
    if request.node.get_closest_marker("integration") is None:
        yield
        return
    with own_domain() as domain:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path_factory.mktemp("ros_log")))
        monkeypatch.setenv("HOME", os.environ.get("HOME", tempfile.gettempdir()))
        yield


@pytest.fixture
def listener(_ros_environment: None) -> Iterator[Listener]:
    """A node of the test's own, which hears what others publish and publishes to them."""
    from tests.support.ros import Listener  # tests without ROS do not wait for rclpy

    made = Listener()
    yield made
    made.close()
