"""Held-out trials of any kind of robot and task: run, scored, judged and reported.

``records`` hold what N robots did; a ``Score`` (``scores``) is made of a record, its figures by key; ``Bounds``
(:mod:`rlstack.tasks.bounds`) judge it; a ``Column`` (``report``) is a score in one place beside those of baselines. A
``Verification`` is all columns with the verdict: verify.json, the page and the table in a terminal are made of it.
A task declares its part as a ``TaskVerification`` (``task_verification``), by which runs choose their best policy too
(``evaluator``).
"""
