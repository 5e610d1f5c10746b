"""What arms learn by, beside our own algorithms, for `arm_learning.py`."""
