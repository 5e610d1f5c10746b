"""Tasks, one module for each, named after it."""
