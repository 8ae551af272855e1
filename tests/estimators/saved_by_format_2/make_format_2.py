"""How the files beside this one were made, with the last code of format 2: python make_format_2.py FOLDER."""

import sys
import warnings
from pathlib import Path

import numpy as np
import polars
import scipy.sparse

from angpn import ANGPNClassifier, ANGPNNetworkClassifier, EnsembleConfig
from angpn.labelling.encoders import ArrayEncoder, ImageEncoder, TextEncoder
from angpn.labelling.table_encoder import TableEncoder
from angpn.utils.container import write_contents

NAMES = {
    "network": np.array(["ä", "b", "c"], dtype=object),
    "ensemble": np.array(["one", "three", "two"], dtype="U9"),
    "sparse": np.array([False, True]),
    "floats": np.array([1.0, 2.0, 5.0]),
}


def main() -> None:
    """Write a model, and what it predicts, of each kind of labels; and an encoder of each kind of rows."""
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    generator = np.random.default_rng(0)
    weights = {"ä": 1.0, "b": 2.0, "c": 1.0}
    models = {
        "network": ANGPNNetworkClassifier(hidden_layer_sizes=[4], max_iter=5, tol=-np.inf, class_weight=weights),
        "ensemble": ANGPNClassifier(max_rounds=1, config=EnsembleConfig(hops=((0.5, 2),), n_base_learners=2)),
        "sparse": ANGPNClassifier(max_rounds=1, config=EnsembleConfig(n_base_learners=2)),
        "floats": ANGPNClassifier(max_rounds=0, config=EnsembleConfig(n_base_learners=2)),
    }
    for kind, model in models.items():
        names = NAMES[kind]
        codes = np.arange(30) % len(names)
        X = generator.normal(size=(30, 3)) + 3 * np.eye(3)[codes]
        X = np.where(np.abs(X) < 0.5, 0, X) if kind == "sparse" else X
        y = np.array([names[code] if row < 15 else None for row, code in enumerate(codes)], dtype=object)
        if kind == "ensemble":
            X, y = X[:15], names[codes[:15]]
        new = X[:5] * 1.1
        rows, new_rows = (scipy.sparse.csr_array(part) if kind == "sparse" else part for part in (X, new))
        model.set_params(n_neighbors=4, n_candidates=6, random_state=0).fit(rows, y)
        if kind == "network":
            model.checkpoint = "checkpoint_of_the_file"  # which this format kept
        model.save(folder / f"{kind}.angpn")
        np.savez_compressed(folder / f"{kind}.npz", X=X, new=new, probabilities=model.predict_proba(new_rows))
    for kind, (encoder, content) in ENCODERS.items():
        if content is not None:
            encoder.fit(content)
        state, arrays = encoder.to_state()
        header = {"kind": kind, "text": None, "id_column": "id", "ignored": ["y"], "state": state}
        write_contents(folder / f"encoder_{kind}.angpn", "encoder", header, arrays)


ENCODERS = {
    "images": (ImageEncoder(), None),
    "text": (TextEncoder(), ["red roses", "red tulips", "old cars", "new cars"]),
    "table": (
        TableEncoder(impute=True, categorical=["zip"]),
        polars.DataFrame({"age": [1.0, None, 3.0], "zip": ["007", None, "1"], "town": ["Ulm", "Ulm", "Bonn"]}),
    ),
    "array": (ArrayEncoder(impute=True), np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])),
}

if __name__ == "__main__":
    main()
