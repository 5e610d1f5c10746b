"""Tasks: what to learn, as pure functions of batched state."""
