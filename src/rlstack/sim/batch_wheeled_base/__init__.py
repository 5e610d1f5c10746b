"""The batch simulator of mobile bases: thousands of robots, each in a map of its own."""
