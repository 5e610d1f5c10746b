"""What the tasks of wheeled bases share; racing and exploration have folders of their own."""
