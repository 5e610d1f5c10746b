"""Shared by the tasks of every kind of robot: environment, step, rollout, observation pipeline, task card."""
