"""Every constant of the automatic classifier, in one place."""

from dataclasses import dataclass, fields
from typing import Annotated

from msgspec import Meta

from angpn.utils.schema import MAX_HOPS, Temperature

MAX_DENSE_WIDTH = 4096  # of features that are propagated; a saved model may not ask for more
HopCount = Annotated[int, Meta(ge=0, le=MAX_HOPS)]
Hops = tuple[float, HopCount]  # alpha of Eq. (13), and how often it is applied
HeadOptions = tuple[float | None, float]  # width of the Gaussian kernel (None: linear head), and C


@dataclass(frozen=True, kw_only=True, repr=False)
class EnsembleConfig:
    """Search space, cross-validation, self-training, solvers and calibration of the automatic classifier.

    The defaults are what :class:`angpn.ANGPNClassifier` was measured with (docs/accuracy.md); an ablation or a test
    passes its own through ``ANGPNClassifier(config=...)``.
    """

    # Search space. From no propagation, where neighbours mislead, to a tenth of the graph, where labels are few.
    hops: tuple[Hops, ...] = ((0.0, 0), (0.2, 1), (0.2, 3), (0.5, 2), (0.5, 5), (0.8, 5), (0.9, 10), (0.9, 20))
    hops_of_given_alpha: tuple[HopCount, ...] = (1, 2, 3, 5, 10, 20)  # where the user fixes alpha
    first_heads: tuple[HeadOptions, ...] = ((None, 10.0), (1.0, 100.0))  # tried with every hops
    more_heads: tuple[HeadOptions, ...] = ((None, 1.0), (None, 100.0), (3.0, 100.0))  # tried with the best hops
    n_hops_refined: int = 4  # how many those are
    spreading_alphas: tuple[float, ...] = (0.9, 0.97)  # label spreading, Eq. (3)
    n_centers: int = 256  # of a Gaussian kernel
    n_base_learners: int = 5

    # Scalings are compared on a few hops, and of many rows on a sample.
    hops_of_scalings: tuple[Hops, ...] = ((0.0, 0), (0.5, 2), (0.8, 5))
    max_rows_compared: int = 10_000
    max_rows_of_scalings: int = 2000
    max_width: Annotated[int, Meta(ge=1, le=MAX_DENSE_WIDTH)] = 512  # features are reduced to so many main directions,
    min_width: Annotated[int, Meta(ge=1, le=MAX_DENSE_WIDTH)] = 128  # of very many rows to fewer, down to this,
    max_feature_values: int = 2**26  # so that a copy of them takes no more than a quarter of a gigabyte
    max_rows_of_basis: int = 20_000  # main directions are found on a sample of rows

    # So few labels a class cannot select and must reach far: the graph alone decides, except that in a table, where a
    # column is a measurement, a linear head is worth as much.
    few_labels_per_class: int = 5
    few_spreading_alphas: tuple[float, ...] = (0.97, 0.99)
    few_spreading_alphas_of_table: tuple[float, ...] = (0.97,)
    few_heads_of_table: tuple[tuple[float, HopCount, float | None, float], ...] = ((0.9, 20, None, 10.0),)
    table_scale_ratio: float = 10.0  # X is a table where the largest column scale exceeds the median so many times

    # Cross-validation.
    min_held_out: int = 400  # one fold suffices where it holds out so many labels
    max_selection_labels: int = 2000  # more say nothing new about hyper-parameters
    far_behind: float = 2.5  # standard errors behind the best, after which a candidate is fitted on no further fold
    hops_bonus: float = 0.5  # log-likelihood that doubling the hops is worth: the safer guess while labels are few
    spreading_doublings: float = 4.4  # label spreading counts as 20 hops

    # Self-training.
    pseudo_label_threshold: float = 0.8  # a row is trained on when its class is at least so probable
    max_pseudo_labels: int = 20_000
    max_fold_models: int = 5  # models that are trained without a fold; the other folds only score
    n_reselection_candidates: int = 15  # the best so far, compared again once there are pseudo-labels
    max_reselection_pseudo_labels: int = 2000
    n_reselection_folds: int = 3
    min_reselection_labels: int = 100  # held-out labels; fewer would decide by chance
    # A further round nearly always helps; while few labels validate, it must show that it does. Log-likelihoods.
    round_bonus: float = 3.0
    round_penalty: float = 2.0
    max_rounds_to_convergence: int = 20

    # Solvers.
    head_tol: float = 1e-3  # largest entry of the gradient of the mean loss
    head_max_iter: int = 100
    spreading_tol: float = 1e-4  # share of the Chebyshev series that may be left out
    spreading_max_terms: int = 1000
    spreading_margin: float = 3.0  # of the most probable class over the mean: about as confident as heads are

    # Calibration.
    max_log_temperature: Annotated[float, Meta(ge=0, le=20)] = 2.5
    shift_penalty: float = 1.0  # few labels move the classes' prior little
    optimism: float = 1.05  # held-out labels also selected hyper-parameters, so the final temperature is raised by this
    temperature_without_labels: Temperature = 0.5  # penalised heads of very few labels are under-confident

    def __repr__(self) -> str:
        changed = (field.name for field in fields(self) if getattr(self, field.name) != field.default)
        return f"EnsembleConfig({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"
