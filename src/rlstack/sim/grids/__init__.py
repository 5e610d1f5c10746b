"""Grid worlds for exploration: many rovers that move from cell to cell over unknown terrain with a short lidar."""
