"""Label the unlabelled rows of a file or folder, or find clusters of them.

rows (read the input) -> encoders (features) -> job (fit and collect results) -> output (predictions, model and report,
in a folder that is replaced as a whole).
Without labels: rows -> encoders -> cluster_job -> cluster_output (clusters, names for a person to fill in, and report);
cluster_labels turns filled-in names into labels.
"""

from angpn.labelling.cluster_job import ClusteringOptions, ClusteringResult, read_unlabelled, run_clustering
from angpn.labelling.cluster_output import check_clusters_folder, write_clusters
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
    "ClusteringOptions",
    "ClusteringResult",
    "LabellingOptions",
    "LabellingResult",
    "LabellingTask",
    "Rows",
    "check_clusters_folder",
    "check_output_folder",
    "make_encoder",
    "predict_file",
    "read_rows",
    "read_task",
    "read_unlabelled",
    "recover_output",
    "run_clustering",
    "run_task",
    "write_clusters",
    "write_output",
]
