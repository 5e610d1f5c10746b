"""Fault drills: inject faults into a deployed system in a simulator and judge the guard's answers."""
