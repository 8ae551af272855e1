"""Types of what saved files hold, with the limits that a reader checks before it trusts a value.

JSON has no NaN and no infinity, so that every number of a header is finite.
"""

from typing import Annotated

from msgspec import Meta, Struct

MAX_STEPS = 100  # alternations of Algorithm 1 and of what runs to convergence: far more than any needs to settle
MAX_HOPS = 1000  # of a base learner; the default search space ends at 20
MAX_BETA = 1e9
MIN_GAMMA, MAX_GAMMA = 1e-30, 1e30  # float32 can divide by it

Size = Annotated[int, Meta(ge=1, le=2**40)]  # of an array, or a count of rows
Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]  # numpy's range
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
OpenShare = Annotated[float, Meta(gt=0, lt=1)]
Temperature = Annotated[float, Meta(ge=1e-9, le=1e9)]  # beyond, float32 has no softmax
Beta = Annotated[float, Meta(ge=0, le=MAX_BETA)]
Gamma = Annotated[float, Meta(ge=MIN_GAMMA, le=MAX_GAMMA)]  # as a number
Flag = bool | int


class Saved(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a file's header: plain values of declared types, all of them present and no others."""
