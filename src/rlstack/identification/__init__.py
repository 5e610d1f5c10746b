"""System identification: what a robot really is, from a recording of its commands and its sensors."""
