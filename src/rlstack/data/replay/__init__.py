"""Replay buffer on disk: a memory-mapped ring, written by one process and sampled by several. NumPy only.

It survives ``kill -9`` at any moment: the next process to open it finds every transition that was complete.
"""

from rlstack.data.replay.buffer import ReplayBuffer
from rlstack.data.replay.reader import Overwritten, ReplayReader
from rlstack.data.replay.spec import Field, ReplaySpec, fields

__all__ = ["Field", "Overwritten", "ReplayBuffer", "ReplayReader", "ReplaySpec", "fields"]
