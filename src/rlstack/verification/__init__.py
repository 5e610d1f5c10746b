"""Held-out trials of any kind of robot and task: run, scored, judged and reported.

``records`` hold the raw data of N trials; a ``Score`` (``scores``) holds the figures computed from a record, by key;
``Bounds`` (:mod:`rlstack.tasks.bounds`) judge it; a ``Column`` (``report``) is a score in one simulator beside those of
baselines. A ``Verification`` combines all columns with the verdict; verify.json, the page and the terminal's table are
rendered from it. A task declares its part as a ``TaskVerification`` (``task_verification``), which also selects the
best policy of a training run (``training_evaluation``).
"""
