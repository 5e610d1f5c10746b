"""Windows of recordings: none spans a gap, and held-out ones share nothing with the others."""

from __future__ import annotations

import numpy as np

from rlstack.identification.recorded import Track
from rlstack.identification.shooting import cut


def test_windows_do_not_overlap_and_leave_gaps_and_the_beginning_out() -> None:
    time_s = np.concatenate([np.arange(0.0, 20.0, 0.01), np.arange(25.0, 45.0, 0.01)])
    track = Track("odom", time_s, {})
    used, held = (
        {k for first in cut(track, length, held_out=out) for k in range(first, first + round(100 * length) + 1)}
        for length, out in ((0.5, False), (1.0, True))
    )
    assert used and held and not used & held
    assert min(used | held) >= 100, "what was commanded before is unknown"
    for first in cut(track, 0.5, held_out=False):
        assert time_s[first + 50] - time_s[first] < 0.51
    assert len(used) > 20 * 50 and len(held) >= 7 * 100
    assert len(cut(track, 1.0, held_out=None)) >= 36, "all of it, in turn"
