"""Classical controllers in plain numpy: what flies the robot when the policy does not."""
