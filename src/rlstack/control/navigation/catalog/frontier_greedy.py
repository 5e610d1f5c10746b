"""Exploration that drives to the nearest frontier."""

from __future__ import annotations

from functools import partial

from rlstack.control.navigation.frontier import build_explorer

PLANNER = partial(build_explorer, "greedy")
