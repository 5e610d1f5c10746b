"""Send a goal to a robot that `rlstack up deploy --policy quadrotor_hover` runs, and wait until it is there."""

import math

import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data

rclpy.init()
node = rclpy.create_node("go", namespace="crazyflie")
goal = PoseStamped()
goal.header.frame_id = "odom"
goal.pose.position.x, goal.pose.position.z, goal.pose.orientation.w = 0.5, 1.2, 1.0
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
sender = node.create_publisher(PoseStamped, "goal", latched)
sender.publish(goal)
seen = []
node.create_subscription(Odometry, "odom", lambda odom: seen.append(odom.pose.pose.position), qos_profile_sensor_data)
far = math.inf
while far > 0.1:
    rclpy.spin_once(node)
    far = math.dist(*((p.x, p.y, p.z) for p in (seen[-1], goal.pose.position))) if seen else far
print(f"there: {far:.3f} m from the goal")
