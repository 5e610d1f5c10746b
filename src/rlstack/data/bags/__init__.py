"""ROS 2 bags as datasets and back: joint states, commands and pictures, at the dataset's rate.

Bags are read and written by rosbags, in plain Python: MCAP or SQLite, compressed or not, with the definitions of their
messages, and no ROS. What ``ros2 bag record`` writes can be read here, and the other way round.
"""

from rlstack.data.bags.reading import Recording, open_bag
from rlstack.data.bags.to_dataset import Moments, add_bag, features_of, moments
from rlstack.data.bags.writing import write_bag

__all__ = ["Moments", "Recording", "add_bag", "features_of", "moments", "open_bag", "write_bag"]
