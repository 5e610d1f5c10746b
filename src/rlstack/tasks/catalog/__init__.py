"""One module for each task; its name is the task's name."""
