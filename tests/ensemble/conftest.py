"""What the tests of the ensemble share."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from angpn.ensemble.base_learners import KINDS
from angpn.ensemble.heads import HeadParameters, PropagatedHead


@pytest.fixture
def recorder(monkeypatch):
    """A kind of base learner that keeps a list of what it is trained on: ``parameters`` of it, and ``problems``."""
    problems = []

    class Recorder(PropagatedHead):
        @classmethod
        def fit(cls, candidates, of_models, **common):
            problems.extend(of_models)
            return super().fit(candidates, of_models, **common)

    @dataclass(frozen=True)
    class RecordedParameters(HeadParameters):
        learner = Recorder

    monkeypatch.setitem(KINDS, "recorder", Recorder)
    return SimpleNamespace(parameters=RecordedParameters(0.5, 1, None, 10.0), problems=problems)
