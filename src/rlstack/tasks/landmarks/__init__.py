"""Instructed tasks of mobile robots in a room with landmarks, for every kind of robot that has a front camera."""
