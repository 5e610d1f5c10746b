"""Run a policy file for one step, with numpy and onnxruntime alone."""

from rlstack.kinds.quadrotor.spec import load_quadrotor
from rlstack.policies import load_policy

policy = load_policy("policy.onnx", robot=load_quadrotor("crazyflie"))
policy.reset()
inputs = {"position": [0.0, 0.0, 1.0], "orientation": [0.0, 0.0, 0.0, 1.0], "linear_velocity": [0.0, 0.0, 0.0]}
inputs |= {"angular_velocity": [0.0, 0.0, 0.0], "goal_position": [0.0, 0.0, 1.2], "goal_orientation": [0, 0, 0, 1]}
print(policy.step(inputs)["rotor_speed"])  # rad/s, in the order of policy.contract.outputs[0].element_names
