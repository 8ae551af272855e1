from .cluster_job import ClusteringOptions, ClusteringResult, read_unlabelled, run_clustering
from .cluster_output import check_clusters_folder, write_clusters
from .input_rows import Rows, read_rows
from .job import (
    LabellingOptions,
    LabellingResult,
    LabellingTask,
    make_encoder,
    read_task,
    run_task,
)
from .output import predict_file, write_output
from .output_folder import check_output_folder, recover_output

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
