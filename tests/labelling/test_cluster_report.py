"""The report of a clustering: what it is made of, and the page in a browser."""

import numpy as np
import polars
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from angpn.labelling import ClusteringOptions, read_unlabelled, run_clustering
from angpn.labelling.cluster_report import map_features, nearest_rows, next_clusters, write_cluster_report
from label_pages import HOSTILE


def test_the_nearest_rows_have_the_largest_weights():
    graph = scipy.sparse.csr_array([[0, 0.2, 0.5, 0.3], [0, 0, 0, 0], [0.5, 0, 0, 0.1], [0.3, 0, 0.1, 0]])
    nearest, weights = nearest_rows(graph, 2)
    assert_array_equal(nearest, [[2, 3], [-1, -1], [0, 3], [0, 2]])
    assert_allclose(weights, [[0.5, 0.3], [0, 0], [0.5, 0.1], [0.3, 0.1]])


def test_the_next_cluster_has_the_nearest_other_centre():
    embedding = np.array([[0.0], [1.0], [4.0], [5.0], [20.0]])
    assert next_clusters(embedding, np.array([0, 0, 1, 1, 2])).tolist() == [1, 1, 0, 0, 1]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Two clusters of a table whose ids and categories are hostile."""
    generator = np.random.default_rng(0)
    members = np.arange(60) < 35
    path = tmp_path_factory.mktemp("table") / "table.csv"
    ids = [f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in range(60)]
    columns = {"key": ids, "size": generator.normal(size=60) + 9 * members, "kind": np.where(members, *HOSTILE[:2])}
    polars.DataFrame(columns).write_csv(path)
    options = ClusteringOptions(input=path, id_column="key", n_clusters=2)
    return run_clustering(options, read_unlabelled(options))


def test_the_map_is_laid_out_by_few_features_that_are_smooth_on_the_graph(result):
    many = np.random.default_rng(0).normal(size=(60, 200))
    affinity = result.model.affinity_matrix_
    means = affinity / affinity.sum(axis=1)[:, None]
    assert_allclose(map_features(result), result.features + means @ result.features, rtol=1e-5, atol=1e-5)
    assert map_features(result._replace(features=many)).shape == (60, 50)
    assert map_features(result._replace(features=scipy.sparse.csr_array(many[:, :9]))).shape == (60, 9)


def test_the_page_shows_each_cluster_and_reacts_to_clicks(result, tmp_path, open_in_browser):
    page = open_in_browser(write_cluster_report(result, tmp_path / "report.html"))
    assert "60" in page.inner_text("#headline")
    assert "names.csv" in page.inner_text("#headline")
    assert "eigengap" not in page.inner_text("#headline")  # the number was asked for
    sections = page.locator(".cluster")
    assert sections.count() == 2
    for place, cluster in enumerate(result.clusters):
        shown = sections.nth(place)
        assert cluster.name in shown.inner_text()  # as text: an alert or a broken image would be recorded as an error
        assert f"{cluster.size} rows" in shown.inner_text()
        listed = shown.locator("[data-row]").evaluate_all("(all) => all.map((one) => Number(one.dataset.row))")
        assert listed == [*cluster.typical, *cluster.borderline]
    assert (
        f"size {float(result.rows.content['size'][result.clusters[0].typical[0]]):.4g}" in sections.nth(0).inner_text()
    )
    row = result.clusters[1].typical[0]
    page.click(f'.cluster [data-row="{row}"]')
    assert page.evaluate("angpnReport.selected()") == row
    panel = page.inner_text("#details")
    assert " ".join(result.rows.ids[row].split()) in " ".join(panel.split())
    assert "typical of its cluster" in panel
    assert "Nearest rows" in panel
    assert "1 of 10" in panel
    page.click("text=margin >> nth=0")
    assert "margin" in page.inner_text("#scale")
    assert "label" not in page.inner_text(".choice")


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_nothing_is_wider_than_the_window(result, tmp_path, open_in_browser, width):
    page = open_in_browser(write_cluster_report(result, tmp_path / "report.html"), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_headline_says_what_an_eigengap_that_was_found_is_worth(result, tmp_path, open_in_browser):
    result.model.eigengap_ = 0.25
    page = open_in_browser(write_cluster_report(result, tmp_path / "report.html"))
    result.model.eigengap_ = None
    assert "an eigengap of 0.25; near 0 it is a guess" in page.inner_text("#headline")
