"""Starting files: a robot, a task, a recipe, or a workspace with all three."""
