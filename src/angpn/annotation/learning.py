"""Learn the labels of rows: what the learner's process computes."""

import time
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD

from angpn.annotation.messages import (
    Begin,
    ClusterOfRows,
    Fitted,
    Learn,
    Mapped,
    MeasuredAccuracy,
    Prepared,
    Suggested,
)
from angpn.annotation.queue import Wanted
from angpn.estimators.auto import ANGPNClassifier
from angpn.estimators.clustering import ANGPNClusterer
from angpn.estimators.suggestion import Suggestion, choose, directions, pool_without_model
from angpn.inspection.accuracy_estimate import estimate_from
from angpn.inspection.label_errors import find_suspects
from angpn.inspection.map_layout import map_layout
from angpn.labelling.cluster_names import can_name_clusters, cluster_names
from angpn.labelling.joint_encoder import images_of, scaling_of
from angpn.utils.labels import UNLABELLED
from angpn.utils.typing import Array

N_SUGGESTED = 100  # more than a person labels while a model is fitted
N_INFLUENCES = 8
_DIRECTIONS = 32  # numbers of a row by which rows are compared with labelled ones
_UNCERTAIN = 0.5  # confidence below which a reason says so


class RowLearner:
    """Features of the rows, and the model that is fitted to more and more labels.

    Args:
        begin: The rows.

    Raises:
        ValueError: If they cannot be encoded.
    """

    def __init__(self, begin: Begin) -> None:
        options, rows = begin.options, begin.rows
        if rows.content is None:
            rows = rows._replace(content=options.read().content)
        self._n_rows, self._seed, self._ids = len(rows.ids), options.seed, rows.ids
        self._encoder = options.make_encoder(rows)
        self._features: Any = self._encoder.fit_transform(rows.encoded_content)
        images = images_of(self._encoder)
        self._unreadable = {} if images is None else dict(images.unreadable)
        self._scaling = scaling_of(self._encoder, self._features)
        self._kept = np.array([row for row in range(self._n_rows) if row not in self._unreadable])
        self._place = np.full(self._n_rows, -1)
        self._place[self._kept] = np.arange(len(self._kept))
        nothing = np.full(len(self._kept), UNLABELLED)
        self._pool = pool_without_model(self._features, nothing, self._seed, self._scaling)
        self._model: ANGPNClassifier | None = None

    def prepared(self) -> Prepared:
        """Return which rows to label first."""
        features = self._pool.features
        if features.shape[1] > _DIRECTIONS:
            features = TruncatedSVD(_DIRECTIONS, random_state=self._seed).fit_transform(features)
        shown = np.zeros((self._n_rows, features.shape[1]), np.float32)
        shown[self._kept] = directions(features)
        return Prepared(self._cover(Learn({}, [], [])).suggested, shown, self._unreadable)

    def mapped(self) -> Mapped:
        """Return the map and the clusters of the rows, without labels."""
        positions = np.full((self._n_rows, 2), 0.5, np.float32)
        found = map_layout(self._pool.features, self._seed)
        low, high = found.min(axis=0), found.max(axis=0)
        positions[self._kept] = (found - low) / np.where(high > low, high - low, 1)
        return Mapped(positions, self._clusters())

    def _clusters(self) -> list[ClusterOfRows]:
        try:
            model = ANGPNClusterer(scaling=self._scaling, random_state=self._seed).fit(self._features)
        except ValueError:  # rows that are too few, or all alike
            return []
        order = np.argsort(-model.typicality_, kind="stable")
        members = [order[model.labels_[order] == cluster] for cluster in range(model.n_clusters_)]
        names: list[str | None] = [None] * len(members)
        if can_name_clusters(self._encoder):
            examples = [self._ids[self._kept[rows[0]]] for rows in members]
            names = [*cluster_names(self._encoder, self._features, model.labels_, examples)]
        return [ClusterOfRows(name, self._kept[rows].tolist()) for name, rows in zip(names, members, strict=True)]

    def learn(self, wanted: Learn) -> Fitted | Suggested:
        """Fit the model to labels, from where the last fit ended.

        Args:
            wanted: The labels.

        Returns:
            Predictions, or rows to label where labels are of fewer than two classes.
        """
        start = time.perf_counter()
        y = np.full(len(self._kept), UNLABELLED)
        for row, label in wanted.labels.items():
            if self._place[row] >= 0:
                y[self._place[row]] = label
        if len(np.unique(y[y != UNLABELLED])) < 2:
            self._model = None
            return self._cover(wanted)
        if self._model is None:
            self._model = ANGPNClassifier(scaling=self._scaling, random_state=self._seed, warm_start=True)
        try:
            model = self._model.fit(self._features, y)
        except BaseException:
            self._model = None  # what is left of the last fit is not to be trusted
            raise
        probabilities = model.label_distributions_
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, :2]
        best, second = np.full((2, self._n_rows), -1, np.int32)
        confidence = np.zeros(self._n_rows, np.float32)
        best[self._kept], second[self._kept] = order.T
        confidence[self._kept] = np.take_along_axis(probabilities, order[:, :1], axis=1)[:, 0]
        suggested = self._wanted(model.suggestions(N_SUGGESTED, candidates=self._candidates(wanted)))
        return Fitted(
            len(wanted.labels),
            time.perf_counter() - start,
            [int(number) for number in model.classes_],
            best,
            second,
            confidence,
            suggested,
            self._suspects(model, y),
            self._measure(model, y, wanted),
        )

    def _cover(self, wanted: Learn) -> Suggested:
        """Choose rows that cover the data, while labels teach no model."""
        labelled = np.zeros(len(self._kept), dtype=bool)
        places = self._place[[*wanted.labels]] if wanted.labels else np.zeros(0, dtype=np.int64)
        labelled[places[places >= 0]] = True
        eligible = self._pool.eligible
        candidates = self._candidates(wanted)
        first, again = eligible.first & candidates & ~labelled, np.where(candidates, eligible.again, 0)
        pool = self._pool._replace(eligible=eligible._replace(first=first, again=again), labelled=labelled)
        return Suggested(len(wanted.labels), self._wanted(choose(pool, N_SUGGESTED, "herding", self._seed)))

    def _candidates(self, wanted: Learn) -> Array:  # (n,) bool, of the rows that could be read
        """Mark the rows that nobody has put aside: one that is would cover others without ever getting a label."""
        found = np.ones(len(self._kept), dtype=bool)
        places = self._place[np.array(wanted.closed, dtype=np.int64)]
        found[places[places >= 0]] = False
        return found

    def _wanted(self, found: list[Suggestion]) -> list[Wanted]:
        """Return suggestions with their reasons."""
        return [Wanted(int(self._kept[one.row]), _reason(one)) for one in found]

    def _suspects(self, model: ANGPNClassifier, y: Array) -> list[tuple[int, int]]:
        given = y != UNLABELLED
        codes = np.where(given, np.searchsorted(model.classes_, y), model.label_distributions_.argmax(axis=1))
        influences, weights = model.influences(N_INFLUENCES)
        found = find_suspects(
            model.label_distributions_,
            codes,
            given,
            model.validation_mask_,
            model.validation_distributions_,
            influences,
            weights,
        )
        return [(int(self._kept[one.row]), int(model.classes_[one.suggested])) for one in found]

    def _measure(self, model: ANGPNClassifier, y: Array, wanted: Learn) -> MeasuredAccuracy | None:
        """Measure accuracy on audit rows whose label was held out.

        The only label of a class is never held out. Without it no model knows the class, so it counts as an error.
        """
        audited = np.zeros(len(y), dtype=bool)
        places = self._place[wanted.audited] if wanted.audited else np.zeros(0, dtype=np.int64)
        audited[places[places >= 0]] = True
        codes = np.searchsorted(model.classes_, y)
        held = np.flatnonzero(model.validation_mask_)
        at_random = audited[held]
        truth = codes[held][at_random]
        predicted = np.searchsorted(model.classes_, model.validation_transduction_)[at_random]
        counts = np.bincount(codes[y != UNLABELLED], minlength=len(model.classes_))
        missed = np.flatnonzero(audited & (y != UNLABELLED) & ~model.validation_mask_)
        missed = missed[counts[codes[missed]] == 1]
        truth = np.concatenate([truth, codes[missed]])
        predicted = np.concatenate([predicted, (codes[missed] + 1) % len(model.classes_)])
        if not len(truth):
            return None
        found = estimate_from("cross-validation", truth, predicted, len(model.classes_), np.ones(len(truth), bool))
        recalls = zip(model.classes_.tolist(), found.recalls, strict=True)
        return MeasuredAccuracy(
            found.accuracy,
            found.low,
            found.high,
            found.n_rows,
            found.base_rate,
            {number: recall for number, recall in recalls if recall is not None},
        )


def _reason(found: Suggestion) -> str:
    if found.confidence is not None and found.confidence < _UNCERTAIN:
        return "uncertain"
    if found.stands_for > 1:
        return f"typical of about {found.stands_for} rows"
    return "unlike the others" if found.confidence is None else "hesitates between two classes"
