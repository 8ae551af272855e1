"""Synthetic reports for the tests of the page."""

import numpy as np

from angpn.inspection.accuracy_estimate import Estimate
from angpn.inspection.label_errors import Suspect
from angpn.inspection.report import Curve, LabelReport

# User texts, malicious or odd: each must be shown as text.
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "\"quotes\" & 'apostrophes' \\ \\u003cb\\u003e &lt;b&gt;",
    "{{DATA}} {{TITLE}} $x ${alert(1)} %s {0}",
    "two\nlines\u2028and\u2029more",
    "emoji 🦋 and right to left שלום",
)


def synthetic_report(n=60, c=4, t=4, seed=0):
    """Classes on a circle; each row is influenced by the rows after it."""
    rng = np.random.default_rng(seed)
    predicted = np.arange(n) * c // n
    angle = 2 * np.pi * predicted / c
    positions = 10 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(size=(n, 2))
    influences = (np.arange(n)[:, None] + np.arange(1, t + 1)) % n
    influences[0, 1:] = -1  # a row with a single influence
    weights = np.sort(rng.dirichlet(np.ones(t), n), axis=1)[:, ::-1]
    given = np.where(np.arange(n) % 10 == 0, predicted, -1)
    given[20] = (predicted[20] + 1) % c
    confusion = 5 * np.eye(c, dtype=int)
    confusion[0, -1] += 2
    return LabelReport(
        title="A synthetic report",
        ids=[f"row-{row}" for row in range(n)],
        classes=[f"class {number}" for number in range(c)],
        given=given,
        predicted=predicted,
        confidence=rng.uniform(0.3, 1, n),
        second=(predicted + 1) % c,
        positions=positions,
        influences=influences,
        weights=weights,
        estimate=Estimate("held out", 0.9, 0.8, 0.95, int(confusion.sum()), confusion),
        uncertain=[row for row in range(n) if given[row] < 0][:25],
        suspects=[Suspect(20, int(predicted[20]), 0.75)],
        curve=Curve([1.0, 0.5, 0.25, 0.3], [0.5, 0.7, 0.9, 0.8], 3),
        texts=[f"The text of row {row}" for row in range(n)],
        thumbnails=None,
        facts=[("rows", str(n)), ("seconds", "1.5")],
    )
