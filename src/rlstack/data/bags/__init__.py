"""ROS 2 bags: write them so that nothing is lost, read them as far as they go, convert them to datasets and back.

A bag is a folder of MCAP files, compatible with ``ros2 bag``. The library ``mcap`` writes them; rosbags knows message
types in plain Python without ROS, and reads other formats (SQLite, files compressed as a whole).
"""

from rlstack.data.bags.bag import Bag
from rlstack.data.bags.bag_writer import BagTopic, BagWriter
from rlstack.data.bags.reading import Recording, open_bag
from rlstack.data.bags.to_dataset import Moments, add_bag, features_of, moments
from rlstack.data.bags.writing import write_bag

__all__ = [
    "Bag",
    "BagTopic",
    "BagWriter",
    "Moments",
    "Recording",
    "add_bag",
    "features_of",
    "moments",
    "open_bag",
    "write_bag",
]
