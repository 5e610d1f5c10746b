"""Quadrupeds: a body that moves freely, on four legs whose joints are driven by position."""
