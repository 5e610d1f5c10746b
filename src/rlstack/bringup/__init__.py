"""Bringup: describes a system's processes, starts and stops them, and runs verification through them."""
