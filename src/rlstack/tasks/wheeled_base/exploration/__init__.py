"""Parts of the exploration task."""
