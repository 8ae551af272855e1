"""The paper's experiments: studies and their runs, splits, the runner, results files, statistics and the report.

>>> from angpn.experiments import STUDIES
>>> len(STUDIES["grid"].runs())  # 4 sets x 3 rates x 5 splits x 17 methods
1020
"""

from angpn.experiments.clustering import CLUSTERING, CLUSTERING_SMOKE, SUITES
from angpn.experiments.published import PUBLISHED
from angpn.experiments.results import Record, ResultsFile
from angpn.experiments.runner import execute
from angpn.experiments.splits import Split, paper_split
from angpn.experiments.studies import SMOKE, STUDIES, Run, Study

__all__ = [
    "CLUSTERING",
    "CLUSTERING_SMOKE",
    "PUBLISHED",
    "SMOKE",
    "STUDIES",
    "SUITES",
    "Record",
    "ResultsFile",
    "Run",
    "Split",
    "Study",
    "execute",
    "paper_split",
]
