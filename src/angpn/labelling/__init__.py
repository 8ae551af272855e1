"""Label the unlabelled rows of a file or folder.

rows (read the input) -> encoders (features) -> job (fit and collect results) -> output (predictions, model and report,
in a folder that is replaced as a whole).
"""

from angpn.labelling.input_rows import Rows, read_rows
from angpn.labelling.job import (
    LabellingOptions,
    LabellingResult,
    LabellingTask,
    make_encoder,
    read_task,
    run_task,
)
from angpn.labelling.output import predict_file, write_output
from angpn.labelling.output_folder import check_output_folder, recover_output

__all__ = [
    "LabellingOptions",
    "LabellingResult",
    "LabellingTask",
    "Rows",
    "check_output_folder",
    "make_encoder",
    "predict_file",
    "read_rows",
    "read_task",
    "recover_output",
    "run_task",
    "write_output",
]
