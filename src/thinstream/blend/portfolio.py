"""The models a blend is made of, unless a user names others: learner, parameters, preparation of rows.

Chosen on training rows of 27 sets by `benchmarks/portfolio`, from 270 candidates; docs/auto-portfolio.md says what each
adds. Nothing here is tuned for a stream: the head finds out who suits it. Rows are as they are, or their features are
over their root mean square, so that the blend is one vector of weights in the caller's units. More models than these
gain nothing: the head has to learn the worth of each.
"""

from thinstream.blend.member import Member

#: AdaGrad's steps from the first row on, instead of after Σg² has grown to 1.
_AT_ONCE = {"delta": 0.001, "loss": "logistic"}

PORTFOLIO = (
    # Rows as they are: tf-idf, counts, anything whose scale means something.
    Member("scw", {"C": 1.0}),
    Member("arow", {"r": 10.0}),
    Member("adafobos", {"eta": 0.5, **_AT_ONCE}),
    Member("nag", {"eta": 0.5}),
    # Features scaled: columns of different units.
    Member("scw", {"C": 0.1}, scale="rms"),
    Member("arcsogd", {"eta": 1.0, "gamma": 1.0}, scale="rms"),
    Member("adafobos", {"eta": 0.1, **_AT_ONCE}, scale="rms"),
)
