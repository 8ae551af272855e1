import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import settings

# In CI the examples are the same every time: a red run means the code changed.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def real_data():
    """A reader of the sparse sets in the folder that ANGPN_DATA names: (features, labels), rows at unit length."""
    if "ANGPN_DATA" not in os.environ:
        pytest.skip("ANGPN_DATA does not name a folder with the paper's data sets")

    def read(name: str) -> tuple[torch.Tensor, torch.Tensor]:
        with np.load(Path(os.environ["ANGPN_DATA"]) / f"{name}.npz") as file:
            matrix = scipy.sparse.csr_array((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
            labels = torch.as_tensor(file["y"], dtype=torch.int64)
        return torch.nn.functional.normalize(torch.as_tensor(matrix.toarray(), dtype=torch.float32)), labels

    return read
