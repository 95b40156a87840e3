"""The scikit-learn API: an estimator class for each algorithm, generated from its declaration."""

from thinstream.estimators.base import ModelClassifier
from thinstream.estimators.classifier import OnlineClassifier
from thinstream.estimators.factory import estimator, estimator_of, load, make, named, save

__all__ = ["ModelClassifier", "OnlineClassifier", "estimator", "estimator_of", "load", "make", "named", "save"]
