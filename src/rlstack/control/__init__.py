"""Classical controllers in plain numpy, used as fallbacks and baselines."""
