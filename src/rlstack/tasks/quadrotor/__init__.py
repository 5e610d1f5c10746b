"""Shared by the quadrotor tasks."""
