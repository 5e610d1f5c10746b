"""The Embodied Agent Interface benchmark (Li et al., arXiv 2410.07166) for the agent: `rlstack bench agent`."""
