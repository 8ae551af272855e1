"""Full-batch training of a graph network: the base of GCN, GAT, GraphSAGE and APPNP."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from angpn.baselines.base import GraphBaseline, Problem, parameters, require_extra
from angpn.kernels.threads import threads_for
from angpn.utils.typing import Array

EPOCHS_WITHOUT_VALIDATION = 200


@parameters
class GraphNetwork(GraphBaseline):
    """Base class of networks on torch_geometric, trained by Adam with early stopping on the validation labels.

    As in the published code of GAT and APPNP, training continues while the validation loss or accuracy improves, and
    the weights with the highest accuracy are kept, among equal ones those with the lowest loss.

    A subclass implements ``_module``, which returns a network from features and edges to logits. If the network has
    ``decayed``, a list of its weights, weight decay applies to those alone.

    Args:
        learning_rate: Learning rate of Adam.
        weight_decay: Weight decay.
        max_iter: Maximal number of epochs.
        n_iter_no_change: Patience in epochs.

    Attributes:
        n_iter_: The number of epochs that ran.
    """

    learning_rate: float = 0.01
    weight_decay: float = 0.0
    max_iter: int = 1000
    n_iter_no_change: int = 100

    def _module(self, in_channels: int, n_classes: int) -> nn.Module:
        raise NotImplementedError

    def _distributions(self, problem: Problem) -> Array:
        require_extra("torch_geometric")
        with for_torch_geometric(len(problem.codes), problem.seed):
            features, edges = as_torch(problem.features), adjacency(problem.graph)
            module = self._module(features.shape[1], problem.n_classes)
            self.n_iter_ = self._train(module, features, edges, problem)
            with torch.no_grad():
                return module(features, edges).softmax(dim=1).double().numpy()

    def _train(self, module: nn.Module, features: Tensor, edges: Tensor, problem: Problem) -> int:
        labels, training, validation = (
            torch.from_numpy(part) for part in (problem.codes, problem.training, problem.validation)
        )
        optimizer = torch.optim.Adam(_groups(module, self.weight_decay), lr=self.learning_rate)
        has_validation = bool(problem.validation.any())
        best_score, best = (-math.inf, -math.inf), None
        best_loss, best_accuracy, improved = math.inf, -math.inf, 0
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}; the default is 1000")
        epochs = self.max_iter if has_validation else min(self.max_iter, EPOCHS_WITHOUT_VALIDATION)
        for epoch in range(1, epochs + 1):
            module.train()
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(features, edges)[training], labels[training]).backward()
            optimizer.step()
            if not has_validation:
                continue
            module.eval()
            with torch.no_grad():
                logits = module(features, edges)[validation]
                loss = float(nn.functional.cross_entropy(logits, labels[validation]))
                accuracy = float((logits.argmax(dim=1) == labels[validation]).double().mean())
            if (accuracy, -loss) > best_score:
                best_score = accuracy, -loss
                best = {name: value.clone() for name, value in module.state_dict().items()}
            if loss < best_loss or accuracy > best_accuracy:
                best_loss, best_accuracy, improved = min(loss, best_loss), max(accuracy, best_accuracy), epoch
            elif epoch - improved >= self.n_iter_no_change:
                break
        if best is not None:
            module.load_state_dict(best)
        module.eval()
        return epoch


@contextmanager
def for_torch_geometric(n_rows: int, seed: int) -> Iterator[None]:
    """Seed and restore torch's global generator, which torch_geometric draws from, and limit threads.

    torch_geometric creates sparse tensors without ``check_invariants``, at which torch warns; checks are turned off.
    """
    with (
        torch.random.fork_rng(devices=[]),
        threads_for(n_rows),
        torch.sparse.check_sparse_tensor_invariants(False),
    ):
        torch.manual_seed(seed)
        yield


def _groups(module: Any, weight_decay: float) -> list[dict[str, Any]]:
    decayed = getattr(module, "decayed", None)
    if decayed is None:
        return [{"params": list(module.parameters()), "weight_decay": weight_decay}]
    chosen = {id(parameter) for parameter in decayed}
    rest = [parameter for parameter in module.parameters() if id(parameter) not in chosen]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def as_torch(features: Any) -> Tensor:
    """Return rows as a float32 tensor, dense or sparse as they are."""
    if not scipy.sparse.issparse(features):
        return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32))
    coo = features.tocoo()
    indices = torch.from_numpy(np.stack(coo.coords).astype(np.int64))
    values = torch.from_numpy(coo.data.astype(np.float32))
    return torch.sparse_coo_tensor(indices, values, coo.shape, check_invariants=False).coalesce()


def adjacency(graph: scipy.sparse.csr_array) -> Tensor:  # (n, n) sparse
    """Return a symmetric graph as a sparse matrix, which torch_geometric multiplies by faster than by a list of edges.

    Measured at 5,000 rows on one thread, an epoch with validation: GraphSAGE 116 ms by edges and 30 by the matrix,
    APPNP 65 and 33, GAT 109 and 90.
    """
    starts, columns = (torch.from_numpy(part.astype(np.int64)) for part in (graph.indptr, graph.indices))
    values = torch.from_numpy(graph.data.astype(np.float32))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")  # not relevant to users
        return torch.sparse_csr_tensor(starts, columns, values, graph.shape, check_invariants=False)


def dropped(features: Tensor, rate: float, training: bool) -> Tensor:
    """Apply dropout to dense rows, or to the stored values of sparse ones."""
    if not features.is_sparse:
        return features * _dropout_factors(features, rate) if training else features
    values = features.values()
    values = values * _dropout_factors(values, rate) if training else values
    shape = tuple(features.shape)
    return torch.sparse_coo_tensor(features.indices(), values, shape, is_coalesced=True, check_invariants=False)


def _dropout_factors(like: Tensor, rate: float) -> Tensor:
    """Return dropout factors: 0 for dropped values, else 1 / (1 - rate).

    Four values share a draw of 64 bits. torch's own dropout draws for each value, which takes most of an epoch of a GCN
    on wide rows (100 ms for 5,000 x 1280; this takes a third).
    """
    draws = torch.empty((like.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = draws.view(torch.int16)[: like.numel()] >= round(rate * 2**16) - 2**15
    return kept.to(like.dtype).mul_(1 / (1 - rate)).view(like.shape)


class RowsLinear(nn.Module):
    """Linear layer for dense or sparse rows, without bias and with Glorot's initialisation as in torch_geometric."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights."""
        nn.init.xavier_uniform_(self.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Return rows times weight."""
        return rows @ self.weight
