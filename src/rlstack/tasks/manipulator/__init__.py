"""What the tasks of arms share: observation, environment, scripted experts."""
