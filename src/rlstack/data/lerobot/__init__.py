"""Datasets in the layout LeRobotDataset v3.0, written and read directly: PyArrow, Pillow, PyAV, without lerobot itself.

An episode is in the dataset as a whole or not at all, whatever happens while it is written.
"""

from rlstack.data.lerobot.episodes import Episode
from rlstack.data.lerobot.features import Feature, check_fits, film, image, number, vector
from rlstack.data.lerobot.layout import Info
from rlstack.data.lerobot.reader import Dataset
from rlstack.data.lerobot.writer import DatasetWriter

__all__ = ["Dataset", "DatasetWriter", "Episode", "Feature", "Info", "check_fits", "film", "image", "number", "vector"]
