"""One module for each learning algorithm; its name is the algorithm's name."""
