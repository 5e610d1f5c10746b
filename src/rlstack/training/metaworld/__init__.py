"""The Meta-World benchmark (Yu et al., arXiv 1910.10897) for vision-language-action policies: `rlstack bench vla`."""
