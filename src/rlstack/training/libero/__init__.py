"""The LIBERO benchmark (Liu et al., arXiv 2306.03310) for vision-language-action policies: `rlstack bench vla`."""
