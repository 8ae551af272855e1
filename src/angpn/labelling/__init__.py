"""Label the unlabelled rows of a file or folder, or find clusters of them.

rows (read the input) -> encoders (features) -> job (fit and collect results) -> output (predictions, model and report,
in a folder that is replaced as a whole).
Without labels: rows -> encoders -> cluster_job -> cluster_output (clusters, names for a person to fill in, and report);
cluster_labels turns filled-in names into labels.

A name is imported when it is first used, see ``__init__.pyi``: who reads rows or images alone needs no torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
