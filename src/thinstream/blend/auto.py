"""Auto: a portfolio of models that learn along, blended as they learn.

Ours; specification §15.
"""

from typing import Annotated, Any, NamedTuple

from thinstream.blend.learner import Blend
from thinstream.blend.member import Portfolio
from thinstream.engine.parameters import CountOrNone, Interval
from thinstream.engine.rule import register


class TrueOrFalse:
    """A truth value."""

    def encode(self, value: Any) -> bool:
        """Itself."""
        if not isinstance(value, bool):
            raise TypeError
        return value

    def decode(self, value: Any) -> bool:
        """Itself."""
        return bool(value)

    def allowed(self) -> str:
        """In words."""
        return "True or False"


class Auto(NamedTuple):
    """Many untuned models learn along in one pass, and a head learns what their scores are worth together.

    ::

        s₁ … s_K the models' scores of a row before they learn it;   x_k = s_k over the mean of |s_k| so far
        z = w·x,  p = 1/(1 + e^−z);  w by an online Newton step on the logistic loss
        at any time one linear model:  v = Σ (w_k/m_k)·v_k

    Nothing is to be tuned: the portfolio has several algorithms at several rates, and models without a share are left
    out as the stream goes on. Probabilities are calibrated.

    Parameters
    ----------
    portfolio : list of estimators or None, default=None
        The models, estimators that learn online (or their names); None: ours.
    max_nnz : int or None, default=None
        Most weights of ``coef_``: those of largest importance stay. Learning goes on with all.
    max_density : float or None, default=None
        The same as a share of all weights.
    drop : bool, default=True
        Whether models without a share are left out, and their memory is returned.

    Attributes
    ----------
    lanes_ : list of dict
        Of each model: learner, parameters, progressive error, share in the blend, why it is out where it is.

    Examples
    --------
    >>> import numpy as np, thinstream as ts
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> model = ts.Auto().fit(X, X @ [1.0, -1.0, 0.0, 2.0] > 0)
    >>> model.predict([[1.0, 0.0, 0.0, 1.0]])
    array([ True])

    """

    portfolio: Annotated[Any, Portfolio()] = None
    max_nnz: CountOrNone = 0
    max_density: Annotated[float, Interval(high=1.0, none=0.0)] = 0.0
    drop: Annotated[bool, TrueOrFalse()] = True


def _made(*, width: int, **options: Any) -> Blend:
    return Blend(n_features=width, **options)


register(Auto, paper="ours", order="second", kind="blend", learner=_made)
