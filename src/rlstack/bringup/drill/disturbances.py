"""Faults that are more than a change of messages: a second publisher, a full disk, a busy processor, parameters."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlstack.bringup.drill import changes
from rlstack.bringup.node_process import Process
from rlstack.interfaces import topics
from rlstack.processes import die_with_parent

if TYPE_CHECKING:
    from rlstack.bringup.drill.chain import Chain

BUSY_S = 2.0
DISK_WATCH_S = 3.0
_BUSY_PER_CORE = 2
BATTERY_EVERY_S = 0.05
_LEFT = {"low": 0.15, "critical": 0.02, "full": 1.0}
"""Share of the charge; the guards' limits are 0.2 and 0.1."""
_RECORDED_S = 20.0
"""Longest time until a recording has begun."""


# Publishers that should not be there


def second_publisher(which: str) -> Callable[[Chain], None]:
    """Return an action that publishes commands beyond the range, in time, as another node.

    Args:
        which: ``policy`` or ``command``: the relay whose topic it publishes on.
    """

    def act(chain: Chain) -> None:
        relay = chain.policy if which == "policy" else chain.command
        publisher = chain.node.intruder.create_publisher(relay.kind, relay.target, topics.quality("command"))
        edit = chain.drill.command_edits["beyond"]

        def beside(data: bytes) -> tuple[bytes]:
            publisher.publish(changes.edited_message(relay.kind, edit, data))
            return (data,)

        relay.set_change(beside)
        chain.kept["intruder"] = publisher

    return act


def no_second_publisher(chain: Chain) -> None:
    """Take the second publisher away."""
    chain.node.intruder.destroy_publisher(chain.kept.pop("intruder"))


def named(process: str) -> Callable[[Chain], str]:
    """Return a check that a process has said who the second publisher is."""

    def check(chain: Chain) -> str:
        return "" if chain.said(process, "intruder") else f"the {process} node did not name the second publisher"

    return check


def find_topics(chain: Chain) -> None:
    """Find every topic of the robot that has a subscriber, and get a publisher for it."""
    node = chain.node.node
    found: dict[str, tuple[Any, Callable[[bytes], None]]] = {}
    ours = {f"{chain.namespace}/{relay.target}": relay for relay in chain.node.relays.values()}
    heard = {f"{chain.namespace}/{relay.source}" for relay in chain.node.relays.values()}  # by the drill alone
    for name, kinds in node.get_topic_names_and_types():
        if not name.startswith(chain.namespace + "/") or node.count_subscribers(name) == 0 or name in heard:
            continue
        kind = topics.message_type(kinds[0])
        if name in ours:
            found[name] = (kind, ours[name].send)
        else:
            use: topics.Quality = "latched" if node.get_publishers_info_by_topic(name) else "event"
            publisher = chain.node.intruder.create_publisher(kind, name, topics.quality(use))
            chain.kept.setdefault("publishers", []).append(publisher)
            found[name] = (kind, publisher.publish)
    chain.kept["topics"] = found


def malformed_everywhere(chain: Chain) -> None:
    """Send half a message, and four bytes, on every topic that was found."""
    from rclpy.serialization import serialize_message

    for kind, publish in chain.kept["topics"].values():
        whole = bytes(serialize_message(kind()))
        for data in (whole[: max(5, len(whole) // 2)], b"\x00\x01\x00\x00"):
            publish(data)


def forget_topics(chain: Chain) -> None:
    """Remove the publishers."""
    for publisher in chain.kept.pop("publishers", []):
        chain.node.intruder.destroy_publisher(publisher)


# Battery and emergency stop


def battery(level: str) -> Callable[[Chain], None]:
    """Return an action that reports a charge from now on, instead of the robot's own reports."""

    def report(chain: Chain) -> None:
        chain.battery.muted = True
        chain.send_battery(_LEFT[level])
        chain.at(BATTERY_EVERY_S, partial(report, chain))

    return report


def full_battery(chain: Chain) -> None:
    """Report a full battery."""
    chain.at(BATTERY_EVERY_S, lambda: None)  # instead of the next report
    for _ in range(5):
        chain.send_battery(_LEFT["full"])
        chain.node.spin(BATTERY_EVERY_S)


def warned(text: str) -> Callable[[Chain], str]:
    """Return a check that the guard's diagnostics warn of something, if the policy still commands."""

    def check(chain: Chain) -> str:
        there = chain.mode != "policy" or any(text in message for who, message in chain.warnings if who == "guard")
        return "" if there else "the guard's diagnostics do not warn of it"

    return check


def estop(chain: Chain) -> None:
    """Call the emergency stop."""
    chain.request(topics.ESTOP)


# Disk and processor


def start_recording(chain: Chain) -> None:
    """Start a recording node, and wait until it records."""
    folder = tempfile.TemporaryDirectory(prefix="rlstack-drill-")
    process = Process(
        name="record",
        module="rlstack.nodes.record",
        namespace=chain.namespace,
        parameters={"out": f"{folder.name}/bag"},
    )
    output = Path(folder.name) / "output"
    with output.open("w") as file:
        popen = subprocess.Popen(
            process.command(),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=chain.environment,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    chain.kept["recording"] = (popen, folder, output)
    bag = Path(folder.name) / "bag"
    chain.wait(lambda: any(bag.glob("*.mcap")), "a recording", _RECORDED_S)
    chain.node.spin(0.5)


def fill_disk(chain: Chain) -> None:
    """Let no file of the recording grow any more."""
    popen, folder, _ = chain.kept["recording"]
    (bag,) = Path(folder.name).glob("bag/*.mcap")
    size = bag.stat().st_size
    resource.prlimit(popen.pid, resource.RLIMIT_FSIZE, (size, size))
    with contextlib.suppress(ProcessLookupError):
        os.kill(popen.pid, signal.SIGTERM)  # it writes what it has not yet written


def disk_was_full(chain: Chain) -> str:
    """Check that the recording ran into the full disk and said so in a sentence."""
    popen, _, output = chain.kept["recording"]
    if popen.poll() is None:
        return "the recording did not end"
    text = output.read_text(errors="replace")
    return f"the recording ended with a traceback: {text.splitlines()[-1]}" if "Traceback" in text else ""


def stop_recording(chain: Chain) -> None:
    """End the recording."""
    popen, folder, _ = chain.kept.pop("recording")
    popen.kill()
    popen.wait()
    folder.cleanup()


def start_idle(chain: Chain) -> None:
    """Start twice as many processes as there are processors, which wait: starting one would delay the relay."""
    spin = [sys.executable, "-S", "-E", "-c", "import sys; sys.stdin.readline()\nwhile True: pass"]
    chain.kept["busy"] = [
        subprocess.Popen(
            spin, stdin=subprocess.PIPE, start_new_session=True, preexec_fn=partial(die_with_parent, os.getpid())
        )
        for _ in range(_BUSY_PER_CORE * (os.cpu_count() or 1))
    ]


def busy(chain: Chain) -> None:
    """Let them all compute for a time."""
    for process in chain.kept["busy"]:
        process.stdin.write(b"\n")
        process.stdin.flush()
    chain.at(BUSY_S, partial(stop_busy, chain))


def stop_busy(chain: Chain) -> None:
    """End them, without waiting for that."""
    for process in chain.kept.get("busy", []):
        process.kill()


def idle(chain: Chain) -> None:
    """End them, and wait for that."""
    stop_busy(chain)
    for process in chain.kept.pop("busy", []):
        process.communicate()


# Parameters


def set_parameters(*, valid: bool) -> Callable[[Chain], None]:
    """Return an action that sets parameters of all three nodes."""

    def act(chain: Chain) -> None:
        chain.kept["set"] = [
            chain.set_parameter("robot", "command_timeout_periods", 5.0 if valid else -1.0),
            chain.set_parameter("guard", "policy_timeout_s", 1.5 if valid else float("nan")),
            chain.set_parameter(
                chain.commander, "goal_position", [*chain.goal] if valid else [float("inf")] * len(chain.goal)
            ),
            *([] if valid else [chain.set_parameter("guard", "no_such_parameter", 1.0)]),
        ]

    return act


def parameters_were(accepted: bool) -> Callable[[Chain], str]:
    """Return a check that every parameter was accepted, or refused."""

    def check(chain: Chain) -> str:
        futures = chain.kept.pop("set")
        if not all(future.done() for future in futures):
            return "a node did not answer a parameter"
        wrong = [one for future in futures for one in future.result().results if one.successful is not accepted]
        return f"a parameter was {'refused' if accepted else 'accepted'}: {wrong[0].reason}" if wrong else ""

    return check


def stays_off_when_back(chain: Chain) -> str:
    """Start the robot node again, and check that the guard does not arm by itself."""
    chain.start_again("robot")
    before = len(chain.modes)
    chain.node.spin(1.0)
    back = [mode for _, mode in chain.modes[before:] if mode not in ("disarmed", "estop")]
    return f"when the robot node was back, the guard went to {back[0]}" if back else ""
