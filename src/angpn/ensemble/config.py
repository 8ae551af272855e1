"""Every constant of the automatic classifier, in one place."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from msgspec import Meta

from angpn.utils.schema import MAX_HOPS, Temperature

MAX_DENSE_WIDTH = 4096  # of features that are propagated; a saved model may not ask for more
HopCount = Annotated[int, Meta(ge=0, le=MAX_HOPS)]
Hops = tuple[float, HopCount]  # alpha of Eq. (13), and how often it is applied
HeadOptions = tuple[float | None, float]  # width of the Gaussian kernel (None: linear head), and C
# Of base learners: those of a family err on much the same rows, and the ensemble has the best of each.
Family = Literal[
    "near linear", "near kernel", "near whitened", "far linear", "far kernel", "far whitened",
    "label spreading", "trees", "smooth trees",
]  # fmt: skip


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
    more_heads: tuple[HeadOptions, ...] = (
        (None, 1.0),
        (None, 100.0),
        (None, 1000.0),
        (3.0, 100.0),
        (0.5, 10.0),
    )  # tried with the best hops
    n_hops_refined: int = 2  # how many those are, of each family
    # Outside tables the best hops of linear heads are tried once more when there are pseudo-labels: given labels alone
    # are too few for directions in which the features hardly vary.
    whitening: Annotated[float, Meta(ge=0, le=0.5)] = 0.25  # the power of its variance that a direction is divided by
    whitened_C: tuple[float, ...] = (1.0, 10.0, 100.0)
    spreading_alphas: tuple[float, ...] = (0.9, 0.97, 0.99)  # label spreading, Eq. (3); the fewer labels, the farther
    n_centers: int = 256  # of a Gaussian kernel
    # Extremely randomised trees, where features are columns: alpha, hops, and rows in a leaf.
    trees: tuple[tuple[float, HopCount, int], ...] = ((0.0, 0, 1), (0.0, 0, 3))
    n_trees: int = 100
    max_rows_of_trees: int = 10_000  # a sample of more; deeper trees take memory, and hardly tell more
    n_of_family: int = 2  # base learners of a family that are kept
    min_weight: float = 0.1  # of a family that is kept
    prior_weight: Annotated[float, Meta(gt=0)] = 1.0  # labels that speak for each family of base learners beforehand;
    spreading_prior: Annotated[float, Meta(gt=0)] = 5.0  # for label spreading, which reaches far;
    few_spreading_prior: Annotated[float, Meta(gt=0)] = 1.0  # of each class, while labels are few;
    trees_bonus: float = 2.0  # in a table as many more for trees,
    spreading_prior_of_table: Annotated[float, Meta(gt=0)] = 0.25  # and so many for label spreading
    labels_of_temperature: float = 50.0  # as many held-out labels move the temperature of a base learner half the way

    # Scalings are compared on a few hops, and of many rows on a sample.
    hops_of_scalings: tuple[Hops, ...] = ((0.0, 0), (0.5, 2), (0.8, 5))
    max_rows_compared: int = 10_000
    max_rows_of_scalings: int = 2000
    max_width: Annotated[int, Meta(ge=1, le=MAX_DENSE_WIDTH)] = 512  # features are reduced to so many main directions,
    min_width: Annotated[int, Meta(ge=1, le=MAX_DENSE_WIDTH)] = 128  # of very many rows to fewer, down to this,
    max_feature_values: int = 2**26  # so that a copy of them takes no more than a quarter of a gigabyte
    max_rows_of_basis: int = 20_000  # main directions are found on a sample of rows
    # Where so few labels a class are given, neighbours may also be found in the main directions of the rows alone; not
    # in a table of few columns.
    max_labels_per_class_of_pca: float = 20.0
    components_per_class: int = 2  # so many directions for each class, and two more,
    max_share_of_pca: float = 0.8  # where they hold no more than this share of the variance: else all do as well

    # So few labels a class cannot select a scaling: it is the expected one, or "standard_pca" in a wide table. Where
    # none can be held out, label spreading does it all, and in a table a linear head is worth as much.
    few_labels_per_class: int = 5
    few_spreading_alphas: tuple[float, ...] = (0.97, 0.99)
    few_spreading_alphas_of_table: tuple[float, ...] = (0.97,)
    few_heads_of_table: tuple[tuple[float, HopCount, float | None, float], ...] = ((0.9, 20, None, 10.0),)

    # X is taken for a table where it has few columns, where the largest scale of a column exceeds the median so many
    # times, or where all are the same, as somebody who standardises columns leaves them.
    max_columns_of_table: int = 31
    table_scale_ratio: float = 10.0
    same_scale_ratio: float = 1.05
    scaling_bonus: float = 3.0  # log-likelihood that unit length is worth outside tables,
    scaling_bonus_of_table: float = 10.0  # and standardised columns in one: trees and main directions go with them

    # Cross-validation.
    min_held_out: int = 400  # one fold suffices where it holds out so many labels
    max_selection_labels: int = 2000  # more say nothing new about hyper-parameters
    far_behind: float = 2.5  # standard errors behind the best, after which a candidate is fitted on no further fold,
    min_far_behind: int = 30  # if that fold has so many labels
    hops_bonus: float = 0.5  # log-likelihood that doubling the hops is worth: the safer guess while labels are few
    spreading_doublings: float = 4.4  # label spreading counts as 20 hops

    # Self-training.
    pseudo_label_threshold: float = 0.8  # a row is trained on when its class is at least so probable
    max_pseudo_labels: int = 20_000
    max_fold_models: int = 5  # models that are trained without a fold; the other folds only score
    n_reselection_candidates: int = 3  # the best of each family so far, compared again once there are pseudo-labels
    max_reselection_pseudo_labels: int = 2000
    n_reselection_folds: int = 3
    min_reselection_labels: int = 100  # held-out labels; fewer would decide by chance
    # A further round nearly always helps; while few labels validate, it must show that it does. Log-likelihoods.
    round_bonus: float = 3.0
    round_penalty: float = 2.0
    max_rounds_to_convergence: int = 20

    # Solvers.
    head_tol: float = 1e-3  # what the mean loss may be above its minimum, about
    head_max_iter: int = 100
    spreading_tol: float = 1e-4  # share of the Chebyshev series that may be left out
    spreading_max_terms: int = 1000
    spreading_margin: float = 3.0  # of the most probable class over the mean: about as confident as heads are

    # Calibration.
    max_log_temperature: Annotated[float, Meta(ge=0, le=20)] = 2.5
    # Few labels move the prior of the classes little: a penalty, and of how many labels it is twice as large.
    shift_penalty: float = 1.0
    labels_of_shift: float = 80.0
    optimism: float = 1.05  # held-out labels also selected hyper-parameters, so the final temperature is raised by this
    slope_penalty: float = 3.0  # of the adaptive temperature
    temperature_without_labels: Temperature = 0.5  # penalised heads of very few labels are under-confident

    def family_prior(self, family: Family, *, of_table: bool, few_classes: int = 0) -> float:
        """Return how many labels speak for a family beforehand.

        ``few_classes`` is the number of classes where labels are few, and else 0.
        """
        if family == "label spreading":
            spreading = self.few_spreading_prior * few_classes if few_classes else self.spreading_prior
            return self.spreading_prior_of_table if of_table else spreading
        return self.prior_weight + (self.trees_bonus if of_table and family in ("trees", "smooth trees") else 0.0)

    def __repr__(self) -> str:
        changed = (field.name for field in fields(self) if getattr(self, field.name) != field.default)
        return f"EnsembleConfig({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"
