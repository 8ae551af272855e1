import numpy as np
import polars
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from scipy.stats import chi2_contingency, pearsonr

from angpn.features import TableEncoder
from angpn.features.table import FeatureColumn
from angpn.labelling.cluster_names import cluster_names, mean_scores, order_columns, presence_scores, telling_columns
from angpn.labelling.encoders import ArrayEncoder, TextEncoder

MEMBERS = np.arange(60) < 20


def test_presence_is_scored_by_the_log_likelihood_ratio_of_its_table():
    inside, total = np.array([15, 6, 20, 0, 1]), np.array([25, 18, 20, 0, 30])
    for place, score in enumerate(presence_scores(inside, total, 20, 60)):
        table = [[inside[place], 20 - inside[place]], [total[place] - inside[place], 40 - total[place] + inside[place]]]
        if inside[place] > total[place] / 3:
            expected = chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
        else:
            expected = 0  # as frequent as elsewhere, or rarer
        assert_allclose(score, expected)


def test_means_are_scored_by_the_likelihood_ratio_of_two_normal_distributions():
    features = np.random.default_rng(0).normal(size=(60, 3)) + MEMBERS[:, None] * [2, 0, -1]
    features = np.column_stack([features, np.full(60, 7.0), MEMBERS])
    scores = mean_scores(features, MEMBERS)
    one = features.var(axis=0)[:3]
    two = [(20 * x[MEMBERS].var() + 40 * x[~MEMBERS].var()) / 60 for x in features.T[:3]]
    assert_allclose(np.abs(scores[:3]), 60 * np.log(one / two))
    assert np.sign(scores[:3]).tolist() == [np.sign(pearsonr(x, MEMBERS).statistic) for x in features.T[:3]]
    assert scores[3] == 0
    assert 1000 < scores[4] < np.inf  # membership itself


def test_texts_are_named_by_words_that_others_lack():
    texts = ["late parcel door please"] * 6 + ["slow router cable please"] * 5 + ["refund card bank thanks"] * 4
    encoder = TextEncoder()
    features = encoder.fit_transform(texts)
    names = cluster_names(encoder, features, np.repeat([0, 1, 2], [6, 5, 4]), ["0", "6", "11"])
    assert [sorted(name.split(", ")) for name in names[:2]] == [["door", "late", "parcel"], ["cable", "router", "slow"]]
    assert names[2] == "bank, card, refund"  # of equal scores the first of the vocabulary


def test_tables_are_named_by_columns_high_or_low_and_by_categories():
    generator = np.random.default_rng(0)
    frame = polars.DataFrame(
        {
            "price": generator.normal(size=60) + 5 * MEMBERS,
            "age": generator.normal(size=60) - 3 * MEMBERS,
            "noise": generator.normal(size=60),
            "brand": np.where(MEMBERS, "acme", generator.choice(["best", "cheap"], 60)),
        }
    )
    encoder = TableEncoder(scale_categories=False)  # as angpn cluster makes it
    features = encoder.fit_transform(frame)
    first, second = cluster_names(encoder, features, np.where(MEMBERS, 0, 1), ["0", "20"])
    assert sorted(first.split(", ")) == ["age low", "brand = acme", "price high"]
    assert {"price low", "age high"} < set(second.split(", "))
    assert "acme" not in second
    assert order_columns(features, np.where(MEMBERS, 0, 1), encoder.feature_columns)[-1] == "noise"


def test_a_column_that_differs_by_chance_is_not_named():
    features = np.random.default_rng(1).normal(size=(60, 2)).astype(np.float32)
    assert telling_columns(features, MEMBERS, [FeatureColumn("a"), FeatureColumn("b")]) == []
    encoder = ArrayEncoder()
    assert cluster_names(encoder, features, np.where(MEMBERS, 0, 1), ["3", "x.png"]) == ["like 3", "like x.png"]


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, np.asarray])
def test_rows_that_are_all_alike_are_recognised(kind):
    from angpn.labelling.cluster_job import _all_alike

    alike = np.tile([[0.0, 2.0, -1.0]], (4, 1))
    assert _all_alike(kind(alike))
    alike[3, 0] = 1e-3
    assert not _all_alike(kind(alike))
