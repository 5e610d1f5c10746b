"""Names of the files in a run's folder."""

RECIPE, CHECKPOINT, POLICY, FIGURES = "recipe.yaml", "checkpoint.pt", "policy.onnx", "training.json"

LINEAGE = "lineage.json"
"""What a fine-tuned run started from, and what that did, nearest first."""

RUN_LOCK = "run.lock"
"""Lock file of the training process."""

TRACKED = "tracked.json"
"""The run's identity in each tracker that keeps it."""

EVALUATIONS = "evaluations.json"
"""Figures of each evaluation so far, in order."""

SCALARS = "events.out.tfevents."
"""How the names of TensorBoard's files begin."""

WORKERS = "workers"
"""Folder of the rollout workers' logs."""
