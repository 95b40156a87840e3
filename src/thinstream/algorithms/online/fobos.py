"""FOBOS with the l1 norm: forward-backward splitting.

Duchi, Singer: Efficient Online and Batch Learning using Forward Backward Splitting (2009); a baseline of P0.
Specification §3, D7.

Lazy form: `truncated`, with P = λ·Σ η_k.
"""

from typing import NamedTuple

from thinstream.engine import truncated
from thinstream.engine.losses import HINGE, Loss
from thinstream.engine.parameters import NonNegative, Positive
from thinstream.engine.prox import RATE_INV_SQRT, Rate
from thinstream.engine.rule import algorithm
from thinstream.engine.truncated import Round, Totals


@algorithm(paper="P0 baseline", order="first", family=truncated, totals=Totals, uses_confidence=False)
class FOBOS(NamedTuple):
    """Forward-backward splitting with the l1 norm.

    ::

        w = soft(w − η_t·∇ℓ, η_t·λ)   every round

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    l1 : float, default=0.0
        λ: larger is sparser.
    rate : {"inv_sqrt", "const", "inv_t"}, default="inv_sqrt"
        η_t: η/√t, η or η/t.
    loss : {"hinge", "logistic"}, default="hinge"

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.FOBOS(l1=0.25, rate="const").fit([[1.0, 0.5], [0.0, 1.0]], [0, 1]).coef_
    array([[-0.5,  0.5]], dtype=float32)

    """

    eta: Positive = 1.0
    l1: NonNegative = 0.0
    rate: Rate = RATE_INV_SQRT
    loss: Loss = HINGE

    def end(p, totals: Totals, t: int, v: float, now: Round, change: int) -> Totals:
        return Totals(totals.P + now.eta_t * p.l1)
