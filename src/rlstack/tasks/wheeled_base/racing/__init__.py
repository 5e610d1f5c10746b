"""Parts of the racing task."""
