"""Semi-supervised classification when there is no graph: Adaptive Neighborhood Graph Propagation Networks.

``ANGPNClassifier`` is the method as a scikit-learn estimator. Below it, for those who want the parts:
``project_simplex``, ``neighbor_graph``, ``propagate`` and ``solve_anfp`` are the paper's maths; ``ANGPNConv`` and
``ANGPN`` its layer and network; ``train`` its training; ``nearest_candidates`` and ``pairwise_distances`` make the
distances it starts from; ``candidate_coverage`` says what its restriction to candidates cost. None of the parts
rescales what it is given.

A name is imported when it is first used: torch, scikit-learn and numba take seconds, and ``import angpn`` or ``angpn
--version`` need none of them. Which name lives where is in ``__init__.pyi``, which type checkers read as well.
"""

import lazy_loader

__version__ = "0.2.0.dev0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
