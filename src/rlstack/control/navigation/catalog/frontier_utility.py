"""Exploration that drives to the edge of the known from which most is seen for the way there."""

from __future__ import annotations

from functools import partial

from rlstack.control.navigation.frontier import build_explorer

PLANNER = partial(build_explorer, "utility")
