"""Thin models: the most important weights of a model, which predict without the others."""

from thinstream.blend.importances import POWERS, USUAL, importance, importance_at
from thinstream.thinning.curve import Choice, Curve, measured
from thinstream.thinning.thin import require_count, thin

__all__ = ["POWERS", "USUAL", "Choice", "Curve", "importance", "importance_at", "measured", "require_count", "thin"]
