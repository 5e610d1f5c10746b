"""Simulated backends, one module each, named like the backend."""
