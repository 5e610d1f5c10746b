"""A replay buffer whose writer is another process: killed at any moment, and read while it writes."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rlstack.data.replay import Overwritten, ReplayBuffer, ReplayReader, ReplaySpec, fields
from rlstack.errors import UserError

pytestmark = pytest.mark.integration

WRITER = """
import random, struct, sys
import numpy as np
from tests.data.replay.test_processes import observation, spec, transition
from rlstack.data.replay import ReplayBuffer

chance = random.Random(int(sys.argv[3]))
buffer = ReplayBuffer(sys.argv[1], spec(int(sys.argv[2])))
mark = 0
while True:
    buffer.begin(observation(mark))
    for _ in range(chance.randrange(12)):
        mark += 1
        index = buffer.add(transition(mark - 1), observation(mark))
        sys.stdout.buffer.write(struct.pack("q", index))
        sys.stdout.buffer.flush()
    mark += 1
"""
"""Writes steps whose every number follows from one mark, and says each index once the transition is whole."""


def spec(capacity: int) -> ReplaySpec:
    seen = fields(position=((3,), "float64"), image=((48, 64, 3), "uint8"))
    return ReplaySpec(seen, fields(action=((2,), "float64")), capacity)


def observation(mark: int) -> dict:
    return {"position": np.full(3, float(mark)), "image": np.full((48, 64, 3), mark % 251, np.uint8)}


def transition(mark: int) -> dict:
    return {"action": np.array([mark, -mark], float)}


def check(batch: dict[str, np.ndarray]) -> None:
    """Every transition is whole: its numbers are of one mark, and the next observation's of the next."""
    marks = batch["position"][:, 0]
    for name, values in (("position", marks), ("next_position", marks + 1)):
        np.testing.assert_array_equal(batch[name], np.repeat(values[:, None], 3, 1))
    for name, values in (("image", marks), ("next_image", marks + 1)):
        np.testing.assert_array_equal(
            batch[name], np.broadcast_to((values % 251)[:, None, None, None], (len(marks), 48, 64, 3))
        )
    np.testing.assert_array_equal(batch["action"], np.stack([marks, -marks], 1))


@contextmanager
def writer(folder: Path, capacity: int, seed: int, stdout: int = subprocess.PIPE) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-c", WRITER, str(folder), str(capacity), str(seed)]
    process = subprocess.Popen(command, stdout=stdout, bufsize=0)  # what is buffered here, communicate() does not see
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def opened(folder: Path, until: float) -> ReplayReader:
    """Return a reader as soon as there is something to read."""
    while True:
        try:
            reader = ReplayReader(folder)
            if len(reader):
                return reader
        except UserError:
            assert time.monotonic() < until, "the writer did not begin"
        time.sleep(0.01)


def test_a_writer_that_is_killed_leaves_every_whole_transition(tmp_path: Path) -> None:
    chance = random.Random(4)
    newest = -1
    for seed in range(4):
        with writer(tmp_path, 40, seed) as process:
            said = process.stdout.read(8)
            time.sleep(chance.uniform(0.0, 0.1))
            process.kill()
            said += process.communicate(timeout=60)[0]
        (told,) = struct.unpack("q", said[len(said) // 8 * 8 - 8 : len(said) // 8 * 8])
        assert told > newest, "the second writer did not go on after the first"
        with ReplayBuffer(tmp_path, spec(40)) as buffer:
            indices = buffer.indices()
            check(buffer.gather(indices))
            newest = int(indices[-1])
            assert told in indices
            assert np.sum(indices > told) <= 1  # it was whole when the kill came, but not yet said
            assert len(buffer) == len(indices)
            ends = buffer.episodes()
            np.testing.assert_array_equal(ends[1:, 0], ends[:-1, 1] + 1)
            oldest = max(0, int(ends[-1, 1]) + 1 - 40)
            assert ends[0, 0] in (oldest, oldest + 1)  # one more was given up for what was not written any more


def test_a_reader_sees_whole_transitions_only_while_they_are_written_over(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with writer(tmp_path, 50, 1, subprocess.DEVNULL):
        reader = opened(tmp_path, time.monotonic() + 120)
        first = reader.draw(1, rng)[0]
        until = time.monotonic() + 1.0
        batches = overwritten = 0
        newest = first
        # on a loaded machine the writer may be around before a batch is looked at again, for a long time
        while time.monotonic() < until or newest < first + 500 or overwritten == batches:
            assert time.monotonic() < until + 120, "the writer is too slow, or no batch could be relabelled"
            batch = reader.sample(16, rng)
            check(batch)
            newest = max(newest, batch["index"].max())
            assert 0 <= len(reader) < 50
            try:
                later = reader.later(batch["index"], rng)
                seen = reader.observe(later)
                np.testing.assert_array_equal(seen["position"][:, 0] - batch["position"][:, 0], later - batch["index"])
            except Overwritten:
                overwritten += 1
            batches += 1
        with pytest.raises(UserError, match="one writer"):
            ReplayBuffer(tmp_path, spec(50))
