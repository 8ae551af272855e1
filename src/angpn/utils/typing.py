"""Types that many files use."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
