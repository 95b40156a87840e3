"""The models a blend is made of, unless a user names others: learner, parameters, preparation of rows.

Chosen on training rows of 27 sets by `benchmarks/portfolio`, from 276 candidates; docs/auto-portfolio.md says what each
adds. Nothing here is tuned for a stream: the head finds out who suits it. A blend of them has two vectors of weights,
one for rows as they are and one for rows of unit length.
"""

from thinstream.blend.head import Counting
from thinstream.blend.member import Member

#: AdaGrad's steps from the first row on, instead of after Σg² has grown to 1.
_AT_ONCE = {"delta": 0.001, "loss": "logistic"}
#: Features over their root mean square, then rows of unit length.
_UNIT = ("rms", "l2")
#: A matrix costs the square of the features for every row.
FEW_FEATURES = 300
#: How much rows count in the head of these models, chosen with them: later ones more, when the models know more.
COUNTING = Counting(later=128.0, flat=0.003)

PORTFOLIO = (
    # Rows as they are: tf-idf, counts, anything whose scale means something.
    Member("scw", {"C": 1.0}),
    Member("arow", {"r": 10.0}),
    Member("arow", {"r": 1.0, "covariance": "full"}, max_features=FEW_FEATURES),
    # Rows of unit length: texts of different lengths, columns of different units.
    Member("scw", {"C": 1.0}, *_UNIT),
    Member("arow", {"r": 0.1}, *_UNIT),
    Member("narow", {"b": 20.0}, *_UNIT),
    Member("adafobos", {"eta": 2.0, **_AT_ONCE}, *_UNIT),
    Member("adarda", {"eta": 0.5, **_AT_ONCE}, *_UNIT),
    Member("ftrlproximal", {"alpha": 0.5}, *_UNIT),
)
