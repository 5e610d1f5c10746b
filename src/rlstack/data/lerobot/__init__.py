"""Datasets in the layout LeRobotDataset v3.0, written and read directly: PyArrow, Pillow, PyAV, without lerobot itself.

Episodes are added atomically: an interrupted write leaves none of it.
"""

from rlstack.data.lerobot.episodes import Episode
from rlstack.data.lerobot.features import Feature, check_fits, film, image, number, vector
from rlstack.data.lerobot.layout import Info
from rlstack.data.lerobot.reader import Dataset
from rlstack.data.lerobot.writer import DatasetWriter

__all__ = ["Dataset", "DatasetWriter", "Episode", "Feature", "Info", "check_fits", "film", "image", "number", "vector"]
