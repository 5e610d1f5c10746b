"""What the tasks of every kind of robot share: environment, step, rollout, observation pipeline, task card."""
