"""How the files beside this one were made, with angpn 0.1.0: python make_0_1_0.py FOLDER."""

import sys
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse

from angpn import ANGPNClassifier

KINDS = {
    "network": {"hidden_layer_sizes": (4,), "max_iter": 10},
    "ensemble": {"num_steps": 1},
    "sparse": {"num_steps": 1},
    "few_labels": {"num_steps": 1},
}


def main() -> None:
    """Write a model, and what it predicts, of each kind."""
    warnings.simplefilter("ignore")
    generator = np.random.default_rng(0)
    for kind, options in KINDS.items():
        X = generator.normal(size=(45, 5)) + 2 * np.eye(5)[np.arange(45) % 3]
        X = np.where(np.abs(X) < 0.5, 0, X) if kind == "sparse" else X
        y = np.where(np.arange(45) < (3 if kind == "few_labels" else 24), np.arange(45) % 3, -1)
        new = X[:10] * np.linspace(1, 2, 5)
        rows, new_rows = (scipy.sparse.csr_array(part) if kind == "sparse" else part for part in (X, new))
        model = ANGPNClassifier(random_state=0, n_neighbors=4, n_candidates=8, **options).fit(rows, y)
        folder = Path(sys.argv[1])
        model.save(folder / f"{kind}.angpn")
        parts = {"distributions": model.label_distributions_, "probabilities": model.predict_proba(new_rows)}
        parts["explained"] = np.array([found.row for found in model.explain(3, 3)])
        np.savez_compressed(folder / f"{kind}.npz", X=X, new=new, **parts)


if __name__ == "__main__":
    main()
