"""Exploration that drives to the frontier with the most expected gain for its distance."""

from __future__ import annotations

from functools import partial

from rlstack.control.navigation.frontier import build_explorer

PLANNER = partial(build_explorer, "utility")
