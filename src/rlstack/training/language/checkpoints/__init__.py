"""Vision-language-action networks whose weights come from published checkpoints."""
