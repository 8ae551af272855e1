"""Cross-validation of semi-supervised classifiers."""

from angpn.model_selection.semi_supervised_kfold import SemiSupervisedKFold

__all__ = ["SemiSupervisedKFold"]
