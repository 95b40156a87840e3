"""The scikit-learn face: one estimator class per algorithm, made from its declaration."""

from thinstream.estimators.base import ModelClassifier
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.factory import estimator, make, named
from thinstream.estimators.saving import estimator_of, load, save

__all__ = ["ModelClassifier", "OnlineClassifier", "estimator", "estimator_of", "load", "make", "named", "save"]
