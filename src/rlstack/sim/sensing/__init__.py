"""Simulated sensors: cameras, lidars, noise."""
