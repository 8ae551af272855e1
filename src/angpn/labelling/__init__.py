"""The main job: a user labelled a few rows of a file or folder, label the rest.

rows (what the input holds) -> encoders (features) -> job (fit, and what is worth telling) -> output (files).
"""

from angpn.labelling.job import Outcome, Settings, Task, encoder_of, run, understand
from angpn.labelling.output import check_folder, predict_file, write_output
from angpn.labelling.rows import Rows, read_rows

__all__ = [
    "Outcome",
    "Rows",
    "Settings",
    "Task",
    "check_folder",
    "encoder_of",
    "predict_file",
    "read_rows",
    "run",
    "understand",
    "write_output",
]
