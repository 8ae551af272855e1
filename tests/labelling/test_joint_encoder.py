"""Several encoders at once: scales, weights, and a round trip through a file."""

import numpy as np
import polars
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from angpn.features import TableEncoder
from angpn.labelling import joint_encoder
from angpn.labelling.encoders import TextEncoder
from angpn.labelling.joint_encoder import Block, JointEncoder, blocks_of, columns_of
from angpn.labelling.saved_encoder import SavedEncoder, read_encoder, write_encoder
from saved_files import mutations, read_saved, write_saved

TEXTS = ["red roses", "red tulips", "old cars", "new cars"]
CONTENT = {"text": TEXTS, "columns": polars.DataFrame({"price": [1.0, 2.0, 30.0, 40.0], "year": [1, 2, 1, 2]})}


def joint():
    encoder = JointEncoder([Block("TF-IDF", TextEncoder()), Block("columns", TableEncoder())])
    return encoder, encoder.fit_transform(CONTENT)


def test_each_block_has_rows_of_length_one():
    encoder, features = joint()
    assert encoder.weights_ == (1, 1)
    assert features.shape == (4, encoder.n_features)
    words, columns = (columns_of(encoder, block, features).toarray() for block in blocks_of(encoder))
    assert_allclose(np.linalg.norm(words, axis=1), 1, rtol=1e-5)
    assert_allclose(np.mean(np.sum(columns**2, axis=1)), 1, rtol=1e-5)
    assert_allclose(columns.mean(axis=0), 0, atol=1e-6)
    assert encoder.describe() == "features: TF-IDF and columns"


def test_new_rows_are_scaled_as_those_of_the_fit():
    encoder, features = joint()
    new = {"text": TEXTS[:1], "columns": CONTENT["columns"][:1]}
    assert_allclose(encoder.transform(new).toarray(), features[[0]].toarray(), rtol=1e-5)


def test_a_block_without_weight_is_neither_computed_nor_saved(monkeypatch):
    monkeypatch.setattr(joint_encoder, "choose_weights", lambda blocks, y, seed: (1.0, 0.0))
    encoder, features = joint()
    assert encoder.describe() == "features: TF-IDF; held-out labels ruled out columns"
    state, arrays = encoder.to_state()
    assert [block.name for block in state.blocks] == ["TF-IDF"]
    again = JointEncoder.from_state(state, arrays)
    assert_array_equal(again.transform({"text": TEXTS}).toarray(), features.toarray())
    assert again.n_features == encoder.n_features == 2


def test_a_joint_encoder_of_texts_comes_back_from_a_file(tmp_path):
    encoder = JointEncoder([Block("TF-IDF", TextEncoder()), Block("again", TextEncoder())])
    features = encoder.fit_transform(TEXTS)
    write_encoder(tmp_path / "encoder.angpn", SavedEncoder("text", "body", "id", ["y"], encoder))
    found = read_encoder(tmp_path / "encoder.angpn")
    assert found[:4] == ("text", "body", "id", ["y"])
    assert scipy.sparse.issparse(features)
    assert_array_equal(found.encoder.transform(TEXTS).toarray(), features.toarray())


def test_parts_of_a_file_that_do_not_belong_together():
    encoder, _ = joint()
    state, arrays = encoder.to_state()
    with pytest.raises(ValueError, match="there is an array '9.idf' that does not belong there"):
        JointEncoder.from_state(state, {**arrays, "9.idf": arrays["0.idf"]})
    with pytest.raises(ValueError, match="the array 'idf' is missing"):
        JointEncoder.from_state(state, {})


def saved_joint(path):
    encoder, _ = joint()
    write_encoder(path, SavedEncoder("text", "body", None, [], encoder, ["price", "year"]))
    return read_saved(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(columns=[]), "its blocks are not those of text with 0 columns"),
        (lambda header: header.update(kind="images by several"), "its blocks are not those of images with 2 columns"),
        (lambda header: header["state"]["blocks"][1].update(name="TF-IDF"), "two blocks have the same name"),
        (lambda header: header["state"]["blocks"][0].update(n_features=7), "the block 'TF-IDF' has 2 features"),
        (lambda header: header["state"]["blocks"][0].update(weight=0.0), "at `$.state.blocks[0].weight`"),
        (lambda header: header["state"]["blocks"][1].update(scale=-1.0), "at `$.state.blocks[1].scale`"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path, change, message):
    good = saved_joint(tmp_path / "good")
    change(good.header)
    with pytest.raises(ValueError, match="must") as caught:
        read_encoder(write_saved(tmp_path / "bad", good))
    assert message in str(caught.value)


def test_a_file_with_one_change_is_refused_or_encodes(tmp_path):
    good = saved_joint(tmp_path / "good")
    refusals = []
    for what, mutated in mutations(good, 0, 60):
        path = write_saved(tmp_path / "mutated", mutated)
        try:
            found = read_encoder(path).encoder
            assert found.transform(CONTENT).shape == (4, found.n_features), what
        except ValueError as error:
            refusals.append(str(error))
    assert 20 < len(refusals) < 60
    assert all("must" in refusal for refusal in refusals)


def test_any_other_encoder_is_one_block():
    encoder = TextEncoder()
    features = encoder.fit_transform(TEXTS)
    (block,) = blocks_of(encoder)
    assert block.encoder is encoder
    assert columns_of(encoder, block, features) is features
