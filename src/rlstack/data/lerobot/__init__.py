"""Datasets in the layout LeRobotDataset v3.0, written and read directly: PyArrow, Pillow, PyAV, without lerobot itself.

Episodes are added atomically: an interrupted write leaves none of it.
"""

from rlstack.data.lerobot.episodes import Episode
from rlstack.data.lerobot.features import ACTION, Feature, check_fits, image, number, vector, video
from rlstack.data.lerobot.layout import Info
from rlstack.data.lerobot.reader import Dataset
from rlstack.data.lerobot.writer import DatasetWriter

__all__ = [
    "ACTION",
    "Dataset",
    "DatasetWriter",
    "Episode",
    "Feature",
    "Info",
    "check_fits",
    "image",
    "number",
    "vector",
    "video",
]
