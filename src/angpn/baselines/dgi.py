"""Deep Graph Infomax: an embedding by contrast with shuffled rows."""

import math
import os

import torch
from torch import Tensor, nn

from angpn.baselines.base import GraphBaseline, Problem, parameters, require_extra
from angpn.baselines.embedding_cache import cached_embedding
from angpn.baselines.neural import RowsLinear, adjacency, as_torch, for_torch_geometric
from angpn.baselines.reference import logistic_distributions
from angpn.utils.typing import Array


@parameters
class DeepGraphInfomax(GraphBaseline):
    """Velickovic et al. (2019), *Deep graph infomax*, on torch_geometric's DeepGraphInfomax and GCNConv.

    One layer of 512 channels with PReLU, Adam 0.001, patience 20 on its own loss, then logistic regression on the
    embedding, as published. The embedding does not depend on the labels: it is cached for the next fit on the same
    rows, and in ``cache_folder`` for other processes.

    Args:
        hidden_channels: Width of the embedding.
        learning_rate: Learning rate of Adam.
        max_iter: Maximal number of epochs.
        n_iter_no_change: Patience in epochs.
        cache_folder: Folder of cached embeddings, or None.
    """

    hidden_channels: int = 512
    learning_rate: float = 0.001
    max_iter: int = 500
    n_iter_no_change: int = 20
    cache_folder: str | os.PathLike[str] | None = None

    def _distributions(self, problem: Problem) -> Array:
        require_extra("torch_geometric")
        parts = {
            "method": "DGI",
            "graph": problem.graph,
            "features": problem.features,
            "parameters": (self.hidden_channels, self.learning_rate, self.max_iter, self.n_iter_no_change),
            "seed": problem.seed,
        }
        embedding = cached_embedding(parts, self.cache_folder, lambda: self._embedding(problem))
        self.embedding_, self.cached_seconds_ = embedding.vectors, embedding.cached_seconds
        return logistic_distributions(self.embedding_, problem)

    def _embedding(self, problem: Problem) -> Array:  # (n, hidden_channels)
        infomax = require_extra("torch_geometric.nn").DeepGraphInfomax
        with for_torch_geometric(len(problem.codes), problem.seed):
            features, edges = as_torch(problem.features), adjacency(problem.graph)
            model = infomax(
                self.hidden_channels,
                encoder=_Encoder(features.shape[1], self.hidden_channels),
                summary=lambda z, *args: torch.sigmoid(z.mean(dim=0)),
                corruption=lambda x, edges: (_shuffled(x), edges),
            )
            optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
            best_loss, best_epoch, best = math.inf, 0, model.state_dict()
            for epoch in range(self.max_iter):
                model.train()
                optimizer.zero_grad()
                loss = model.loss(*model(features, edges))
                loss.backward()
                optimizer.step()
                if loss.item() < best_loss:
                    best_loss, best_epoch = loss.item(), epoch
                    best = {name: value.clone() for name, value in model.state_dict().items()}
                elif epoch - best_epoch >= self.n_iter_no_change:
                    break
            model.load_state_dict(best)
            model.eval()
            with torch.no_grad():
                return model(features, edges)[0].numpy()


class _Encoder(nn.Module):
    def __init__(self, in_channels: int, hidden: int) -> None:
        super().__init__()
        self.conv = require_extra("torch_geometric.nn").GCNConv(in_channels, hidden, cached=True)
        self.conv.lin = RowsLinear(in_channels, hidden)
        self.activation = nn.PReLU(hidden)

    def forward(self, rows: Tensor, edges: Tensor) -> Tensor:
        return self.activation(self.conv(rows, edges))


def _shuffled(rows: Tensor) -> Tensor:
    order = torch.randperm(rows.shape[0])
    return rows.index_select(0, order)
