"""The scikit-learn face: one estimator class per algorithm, made from its declaration."""

from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.factory import estimator, make, named

__all__ = ["OnlineClassifier", "estimator", "make", "named"]
