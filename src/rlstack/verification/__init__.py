"""Evaluation: rollouts, metrics, and the report that a flight needs."""
