"""The recording node: records robots' topics into a ROS 2 bag (MCAP), byte for byte, and at little cost to them.

No message wakes this node: it asks its subscriptions fifty times a second for what waits, and a thread writes that.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

from rlstack.data.bags.bag_writer import BagTopic, BagWriter
from rlstack.data.bags.definitions import definition_of
from rlstack.data.bags.mcap_file import Message
from rlstack.data.bags.writing_thread import WritingThread, give_way
from rlstack.errors import UserError
from rlstack.interfaces import topics
from rlstack.interfaces.recorded import COMMANDERS, Selection
from rlstack.nodes.parameters import Parameter
from rlstack.nodes.polled_topics import listener_of
from rlstack.nodes.recorded_facts import RecordedFacts, versions
from rlstack.nodes.recorded_topic import RecordedTopic, quality_of
from rlstack.nodes.runtime import ManagedNode

PARAMETERS = (
    Parameter("out", "", "The bag's folder, which must not exist yet; configured again, the node adds -2."),
    Parameter(
        "robots", (), "Namespaces of the robots to record; empty: this node's own, or all if it has none.", each=str
    ),
    Parameter(
        "topics",
        (),
        "Topics to record, besides what policies see and say and what guards do, with wildcards (*); empty: everything"
        " of the robots except pictures.",
        each=str,
    ),
    Parameter("pictures", False, "Record pictures and cameras' point clouds, too; what a policy sees always is."),
    Parameter("compression", "zstd", "Compression of the bag.", choices=("zstd", "lz4", "none")),
    Parameter("split_mib", 2048, "Begin another file at this size, MiB; 0: never.", minimum=0),
    Parameter("split_s", 3600.0, "Begin another file after this time, s; 0: never.", minimum=0.0),
    Parameter("seconds", 0.0, "End after this time, s; 0: when asked to.", minimum=0.0),
    Parameter(
        "rest_within_s",
        0.0,
        "When asked to end, how long to go on recording until the guards have ended, s.",
        minimum=0.0,
        maximum=3600.0,
    ),
)

_POLL_S = 0.02
_LOOK_S = 0.5
"""Period at which the graph is asked for new topics and nodes."""
_NICE = 5
"""By how much this node and its writing thread give way; the middleware's own thread, which receives, does not."""
_MISSED_S = 3.0
"""After this time, a topic that was asked for and is not there is warned of."""


class RecordNode(ManagedNode):
    """Records while it is active; the bag is complete after deactivation or when a signal ends the process.

    A disk that fills ends the node with a ``UserError``; no other node waits for it.
    """

    NAME: ClassVar[str] = "record"
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(overrides, **options)
        self.counts: dict[str, int] = {}
        """Recorded messages by topic."""
        self._thread: WritingThread | None = None
        self._bags, self._out = 0, Path()
        self._listener: Any = None
        self._end_by: float | None = None

    def configure(self) -> None:
        """Open the bag.

        Raises:
            UserError: No folder is given, it exists, or it cannot be made.
        """
        given = self.parameters["out"]
        if not given:
            raise UserError("out: give a folder for the bag, which does not exist yet.")
        self._out = Path(f"{given}-{self._bags + 1}" if self._bags else given)
        mib, seconds = self.parameters["split_mib"], self.parameters["split_s"]
        compression = self.parameters["compression"]
        writer = BagWriter(self._out, compression=compression, split_bytes=mib * 2**20, split_s=seconds)
        self._bags += 1
        spaces = [self.resolve_topic_name(name.rstrip("/") or "/") for name in self.parameters["robots"]]
        self._selection = Selection(
            spaces or [self.get_namespace()], self.parameters["topics"], pictures=self.parameters["pictures"]
        )
        self._listener = listener_of(self)
        self.counts = {}
        self._recorded: dict[str, RecordedTopic] = {}
        self._refused: dict[str, str] = {}
        self._early: list[Message] = []
        self._told: dict[str, str] = {}
        self._thread = WritingThread(writer, nice=_NICE)
        self._facts = RecordedFacts(self, self._selection, self._thread.call)
        self._thread.call(lambda bag: bag.note({**versions(), "robots": " ".join(self._selection.spaces)}))

    def activate(self) -> None:
        """Begin to record."""
        self._began_at, self._looked_at = time.monotonic(), 0.0
        self.every(_POLL_S, self._tick)

    def deactivate(self) -> None:
        """Take what waits."""
        self._poll(all_of_it=True)

    def cleanup(self) -> None:
        """Complete the bag."""
        thread, self._thread = self._thread, None
        if self._listener is not None:
            for topic in self._recorded.values():
                topic.close()
            self._listener.destroy_node()
            self._listener = None
        if thread is None:
            return
        try:
            if thread.error is None:
                self._tell_losses(thread)
            thread.close()
        except Exception as error:
            if self.failure is None:
                raise self._cut_short(error) from error
            return
        lost = sum(topic.lost for topic in self._recorded.values()) + sum(thread.dropped.values())
        total = sum(self.counts.values()) - sum(thread.dropped.values())
        self.get_logger().info(f"Recorded {total} messages into {self._out}, and lost {lost or 'none'}.")

    def status(self) -> tuple[str, dict[str, Any]]:
        """Report what was recorded, and what was lost."""
        thread = self._thread
        if thread is None:
            return "", {}
        lost = {name: topic.lost for name, topic in self._recorded.items() if topic.lost}
        sentences = [
            _losses("did not arrive", lost),
            _losses("found no room before the disk took them", thread.dropped),
            *(f"{name} is not recorded: {why}" for name, why in self._refused.items()),
        ]
        if time.monotonic() - self._began_at > _MISSED_S:
            for name in self._selection.patterns:
                if not any(self._selection.is_chosen(topic, name) for topic in self._recorded):
                    sentences.append(f"Nobody publishes {name}.")
        figures = {
            "bag": str(self._out),
            "topics": len(self._recorded),
            "messages": sum(self.counts.values()),
            "lost": sum(lost.values()),
            "dropped": sum(thread.dropped.values()),
        }
        return " ".join(filter(None, sentences)), figures

    def begin_end(self, signal_name: str) -> None:
        """Go on while robots are brought to rest."""
        self._end_by = time.monotonic() + self.parameters["rest_within_s"]

    def may_end(self) -> bool:
        """Return whether the guards have ended, or it is too late to wait for them."""
        if self._end_by is None or time.monotonic() > self._end_by or not self.active:
            return True
        names = (f"{space.rstrip('/')}/{topics.GUARD_MODE}" for space in self._selection.spaces)
        return not any(self.count_publishers(name) for name in names)

    # Recording -------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._look()
        self._poll()
        if 0.0 < self.parameters["seconds"] < now - self._began_at:
            os.kill(os.getpid(), signal.SIGTERM)  # the regular exit of every node: status 0

    def _look(self) -> None:
        """Find topics and nodes."""
        nodes = self.get_node_names_and_namespaces()
        for name, space in nodes:
            if name in COMMANDERS and self._selection.has(f"{space.rstrip('/')}/{name}"):
                with contextlib.suppress(Exception):  # it has ended meanwhile
                    inputs = self.get_subscriber_names_and_types_by_node(name, space)
                    self._selection.inputs |= {topic for topic, _ in inputs if topic != "/parameter_events"}
        for topic, kinds in self.get_topic_names_and_types():
            if topic not in self._refused and self._selection.wants(topic, kinds[0]):
                self._record(topic, kinds)
        self._facts.look(nodes)
        if self._thread is not None:
            self._tell_losses(self._thread)
            if warning := self.status()[0]:
                self.warn(warning, "status")

    def _record(self, topic: str, kinds: list[str]) -> None:
        """Subscribe to a topic that somebody publishes, or once more if somebody publishes it in another way."""
        assert self._thread is not None
        publishers = self.get_publishers_info_by_topic(topic)
        if topic in self._recorded:
            self._recorded[topic].subscribe(publishers)
            return
        if not publishers:
            return
        kind = publishers[0].topic_type or kinds[0]
        try:
            made = RecordedTopic(self._listener, topic, kind, publishers, identified=not self.why_unknown)
        except UserError as error:
            self._refused[topic] = str(error)
            return
        self._recorded[topic], self.counts[topic] = made, 0
        kind_hash = str(publishers[0].topic_type_hash)
        profiles = tuple(quality_of(one.qos_profile) for one in publishers)
        told = BagTopic(topic, kind, definition_of(kind), kind_hash if kind_hash.startswith("RIHS") else "", profiles)
        self._thread.call(lambda bag: bag.add_topic(told))

    def _poll(self, all_of_it: bool = False) -> None:
        """Pass on what has arrived, in the order in which it did.

        What arrived since this began waits until the next time: something else that arrived before it may have been
        missed.
        """
        thread = self._thread
        if thread is None:
            return
        if thread.error is not None:
            raise self._cut_short(thread.error) from thread.error
        began_ns = time.time_ns()
        due, self._early = self._early, []
        for name, topic in self._recorded.items():
            taken = topic.take()
            self.counts[name] += len(taken)
            if name == topics.DIAGNOSTICS:
                for message in taken:
                    self._facts.heard(message.data)
            if all_of_it or not taken or taken[-1].received_ns <= began_ns:
                due += taken
            else:
                due += [message for message in taken if message.received_ns <= began_ns]
                self._early += [message for message in taken if message.received_ns > began_ns]
        due.sort(key=_receipt)
        thread.put(due)

    def _tell_losses(self, thread: WritingThread) -> None:
        lost = {name: topic.lost for name, topic in self._recorded.items() if topic.lost}
        told = {"lost": json.dumps(lost), "dropped": json.dumps(dict(thread.dropped))}
        if told != self._told:
            self._told = told
            thread.call(lambda bag: bag.note(told))

    def _cut_short(self, error: Exception) -> UserError:
        why = getattr(error, "strerror", None) or str(error)
        return UserError(
            f"The recording ended: cannot write to the bag {self._out}: {why}. What was written before is kept, and"
            " `rlstack info` and `rlstack play` read it. Make room there and record again; the robot is not affected."
        )


def _losses(what: str, counts: dict[str, int]) -> str:
    if not counts:
        return ""
    return f"Messages {what}: {', '.join(f'{count} of {name}' for name, count in sorted(counts.items()))}."


def _receipt(message: Message) -> int:
    return message.received_ns


class RecordProcess(RecordNode):
    """Records robots' topics into a ROS 2 bag, in a process of its own that gives way to others."""

    def activate(self) -> None:
        """Begin to record."""
        give_way(_NICE)  # the middleware's threads exist by now, and keep their priority: they copy what arrives
        super().activate()


main = RecordProcess.main

if __name__ == "__main__":
    raise SystemExit(main())
