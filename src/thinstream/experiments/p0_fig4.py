"""P0, Fig. 4: balanced accuracy against sparsity, rare malicious URLs."""

from collections.abc import Sequence

from thinstream.experiments.experiment import Claim, Experiment, Row
from thinstream.experiments.p0_imbalance import ABOUT, Contest, cells_of, draw, tables

SETS = ("phish-url-pdd", "kdd99")


def claims(rows: Sequence[Row]) -> list[Claim]:
    """The paper's observations."""
    contest = Contest(rows)
    return [contest.costs_help(), contest.second_order_helps(), contest.best_is_ours()]


EXPERIMENT = Experiment(
    name="p0-fig4",
    source="P0, Fig. 4",
    title="Malicious URLs, one in a hundred",
    about=ABOUT,
    cells=cells_of(SETS),
    tables=tables,
    draw=draw,
    claims=claims,
    stand_ins={
        "URL2": "phish-url-pdd, lexical features of URLs; beside it kdd99, attacks among connections: anomalies too, "
        "but only 118 features",
    },
    version=2,
)
