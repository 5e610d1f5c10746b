"""Convert ROS 2 bags to datasets and back: joint states, commands and images, at the dataset's rate.

rosbags reads and writes them in plain Python without ROS: MCAP or SQLite, compressed or not, with their message
definitions, compatible with ``ros2 bag``.
"""

from rlstack.data.bags.reading import Recording, open_bag
from rlstack.data.bags.to_dataset import Moments, add_bag, features_of, moments
from rlstack.data.bags.writing import write_bag

__all__ = ["Moments", "Recording", "add_bag", "features_of", "moments", "open_bag", "write_bag"]
