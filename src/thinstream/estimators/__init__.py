"""The scikit-learn face: one estimator class per algorithm, made from its declaration."""

from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.factory import estimator, make, named
from thinstream.estimators.saving import load, save

__all__ = ["OnlineClassifier", "estimator", "load", "make", "named", "save"]
