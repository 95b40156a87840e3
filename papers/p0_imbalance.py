"""P0, Figs. 4 and 5: balanced accuracy against sparsity, one positive in a hundred, with and without class costs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers import p0_common as p0
from papers.data import Data, batch_of
from papers.experiment import Cell, Claim, Experiment, Row, cells_for, markdown
from papers.presenting import distinct, legend, listed, panels, pick
from thinstream.engine.loop import Costs

#: Negatives for one positive; samples averaged over.
RATIO, SAMPLES = 99, 5
COSTS = Costs(1.0, float(RATIO))
WITH_COSTS = {
    "CS-FSOL": p0.Contestant("fsol", has_costs=True),
    "CS-SSOL": p0.Contestant("ssol", has_costs=True),
    "CS-SSOL on loss": p0.Contestant("ssol", p0.ON_LOSS, has_costs=True),
    "CS-OGD": p0.Contestant("csogd", is_sparse=False, has_costs=True),
    "CPA": p0.Contestant("cpa", is_sparse=False, has_costs=True),
    "PAUM": p0.Contestant("paum", is_sparse=False, has_costs=True),
}
CONTESTANTS = {**p0.SPARSE, **WITH_COSTS}
DENSE = tuple(label for label, contestant in WITH_COSTS.items() if not contestant.is_sparse)
FIRST_ORDER, SECOND_ORDER = ("STG", "FOBOS", "FSOL"), ("AdaFOBOS", "AdaRDA", "SSOL")
SHOWN = (0.0, *p0.LEVELS[:4])


def rare(data: Data, seed: int, ratio: int = RATIO) -> Data:
    """Return all negatives and one positive per ``ratio`` of them, in random order.

    >>> import scipy.sparse as sp
    >>> data = Data(sp.csr_matrix(np.eye(8)), np.array([1, 1, 1, 1, 1, -1, -1, -1], np.int8))
    >>> int((rare(data, 0, ratio=3).y > 0).sum()), len(rare(data, 0, ratio=3).y)
    (1, 4)
    """
    rng = np.random.default_rng(seed)
    negative: NDArray[np.intp] = np.flatnonzero(data.y < 0)
    positive: NDArray[np.intp] = np.flatnonzero(data.y > 0)
    wanted = min(max(round(len(negative) / ratio), 1), len(positive))
    rows = np.concatenate([negative, rng.choice(positive, wanted, replace=False)])
    return data.take(rng.permutation(rows))


def work(name: str, label: str, smoke: bool) -> list[Row]:
    """An algorithm on a set."""
    contestant, ratio = CONTESTANTS[label], 5 if smoke else RATIO
    costs = (COSTS if not smoke else Costs(1.0, 5.0)) if contestant.has_costs else p0.PLAIN
    train, test = p0.task(name, smoke)
    samples = [(rare(train, 2 * k, ratio), rare(test, 2 * k + 1, ratio)) for k in range(1 if smoke else SAMPLES)]
    rows = batch_of(samples[0][0])
    parameters = p0.choose_parameters(contestant, rows, costs, "error" if smoke else "balanced_accuracy", smoke=smoke)
    l1 = p0.l1_values(contestant, parameters, rows, costs, smoke=smoke)
    runs = [
        p0.measured(p0.learned(contestant, parameters, l1, batch_of(some), costs), other) for some, other in samples
    ]
    about: Row = {"set": name, "algorithm": label}
    some, other = samples[0]
    sizes = {
        f"{part} {kind}": int(count)
        for part, data in (("train", some), ("test", other))
        for kind, count in (("positives", (data.y > 0).sum()), ("rows", len(data.y)))
    }
    chosen: Row = {
        **about,
        "kind": "chosen",
        "parameters": p0.in_words(parameters),
        "features": train.X.shape[1],
        **sizes,
    }
    found = p0.curve_rows(about, l1, runs, train.X.shape[1], "balanced", "sensitivity", "specificity")
    return [chosen, *(found if contestant.is_sparse else found[:1])]


def cells_of(sets: Sequence[str]) -> Callable[[bool], list[Cell]]:
    """A cell for each set and algorithm."""
    few = (*p0.SMOKE, "CS-FSOL", "CS-SSOL", "CS-SSOL on loss")
    return lambda smoke: cells_for(work, sets[:1] if smoke else sets, few if smoke else CONTESTANTS, smoke)


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Balanced accuracy at each level, and the sizes."""
    values, sets, labels = p0.level_values(rows, "balanced"), distinct(rows, "set"), distinct(rows, "algorithm")
    sparse = [label for label in labels if label not in DENSE]
    yield "Balanced accuracy in percent, the best of each set in bold."
    yield from (p0.level_table(values, sets, sparse if level else labels, level, least=False) for level in SHOWN)
    lines = []
    for row in [row for row in rows if row["kind"] == "curve" and row["l1"] == 0.0]:
        chosen = pick(rows, kind="chosen", set=row["set"], algorithm=row["algorithm"])[0].get("parameters", "")
        rates = [f"{row[what]:.1f}" for what in ("sensitivity", "specificity", "balanced")]
        lines.append([row["set"], row["algorithm"], chosen or "–", *rates])
    yield "At l1 = 0:"
    yield markdown(["set", "algorithm", "chosen", "sensitivity", "specificity", "balanced"], lines)
    sizes = {row["set"]: row for row in pick(rows, kind="chosen")}
    columns = ("train rows", "train positives", "test rows", "test positives", "features")
    lines = [[name, *(f"{row[column]:,}" for column in columns)] for name, row in sizes.items()]
    yield markdown(["set", *columns], lines)


class Contest:
    """Balanced accuracies by set, algorithm and level, and the questions the paper asks of them."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.values = {key: value[0] for key, value in p0.level_values(rows, "balanced").items()}
        self.sets, self.labels = distinct(rows, "set"), distinct(rows, "algorithm")

    def costs_help(self) -> Claim:
        """CS-FSOL against FSOL, CS-SSOL against SSOL."""
        texts, won, of = [], 0, 0
        for name in self.sets:
            for label in ("FSOL", "SSOL"):
                gains = [
                    self.values[name, f"CS-{label}", level] - self.values[name, label, level]
                    for level in SHOWN
                    if (name, f"CS-{label}", level) in self.values and (name, label, level) in self.values
                ]
                if not gains:
                    continue
                won, of = won + sum(gain > 0 for gain in gains), of + len(gains)
                texts.append(f"CS-{label} on {name} {min(gains):+.1f} … {max(gains):+.1f}")
        return Claim(
            "the cost-sensitive algorithms are consistently better than their cost-insensitive versions",
            won == of,
            f"better at {won} of {of} sparsities compared; points gained: " + ", ".join(texts),
        )

    def reached(self, name: str, labels: Sequence[str]) -> list[float]:
        """The levels at which all of these have models in all draws: only there can they be compared."""
        here = [label for label in labels if label in self.labels and label not in DENSE]
        return [level for level in SHOWN if all((name, label, level) in self.values for label in here)]

    def second_order_helps(self) -> Claim:
        """Without costs."""
        texts, held = [], []
        for name in self.sets:
            levels = self.reached(name, (*FIRST_ORDER, *SECOND_ORDER))
            first, second = (
                np.mean(
                    [self.values[name, label, level] for label in group if label in self.labels for level in levels]
                )
                for group in (FIRST_ORDER, SECOND_ORDER)
            )
            held.append(bool(second > first))
            texts.append(f"{name} {second:.1f} against {first:.1f} ({told(levels)})")
        return Claim(
            "among the cost-insensitive ones, second-order algorithms are generally better than first-order ones",
            all(held),
            "mean of the three over the sparsities that all six reach: " + ", ".join(texts),
        )

    def best_is_ours(self) -> Claim:
        """CS-SSOL against all."""
        texts, won, beside, of = [], 0, 0, 0
        for name in self.sets:
            for level in self.reached(name, self.labels):
                sparse = {label: self.values[name, label, level] for label in self.labels if label not in DENSE}
                lines = {label: self.values[name, label, 0.0] for label in DENSE if (name, label, 0.0) in self.values}
                here = {**sparse, **lines}
                best = max(here, key=lambda label: here[label])
                won, of = won + (best == "CS-SSOL"), of + 1
                beside += max(sparse, key=lambda label: sparse[label]) == "CS-SSOL"
                if best != "CS-SSOL":
                    texts.append(f"{name} at {level:g} %: {best} {here[best]:.1f}, CS-SSOL {here['CS-SSOL']:.1f}")
        return Claim(
            "CS-SSOL is the best of all",
            won == of,
            f"best at {won} of the {of} sparsities that all with l1 reach (at {beside} if CS-OGD, CPA and PAUM, always "
            "dense, are left aside)" + (f"; not: {'; '.join(texts)}" if texts else ""),
        )

    def sparse_beats_dense(self) -> Claim:
        """SSOL and AdaRDA without costs against CPA and PAUM with."""
        texts, held = [], []
        for name in self.sets:
            ours, theirs = (
                {label: self.values[name, label, 0.0] for label in group if (name, label, 0.0) in self.values}
                for group in (("SSOL", "AdaRDA"), ("CPA", "PAUM"))
            )
            held.append(bool(theirs) and min(ours.values()) > max(theirs.values()))
            texts.append(f"{name}: {listed({**ours, **theirs}, '.1f')}")
        return Claim(
            "SSOL and Ada-RDA without costs outperform CPA and PAUM with costs (on the wide, sparse set)",
            all(held),
            "l1 = 0, " + "; ".join(texts),
        )


def told(levels: Sequence[float]) -> str:
    """Levels in words.

    >>> told([0.0, 90.0, 95.0])
    'l1 = 0, 90, 95 %'
    """
    return ", ".join(f"{level:g}" if level else "l1 = 0" for level in levels) + " %" * (levels[-1] > 0.0)


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Two panels for each set: without costs, with costs."""
    sets = distinct(rows, "set")
    lines = len(sets)
    axes = panels(figure, lines, 2, 9.2, 3.0 * lines + 0.7)
    for pair, name in zip(axes, sets, strict=True):
        curves = p0.curves_of(rows, name, "balanced")
        best = max(value for points in curves.values() for _, value in points)
        dense = {label: curves.pop(label) for label in DENSE if label in curves}
        sparsest = max(share for points in curves.values() for share, _ in points)
        for axis, costs in zip(pair, (False, True), strict=True):
            own = {label: points for label, points in curves.items() if (label in WITH_COSTS) == costs}
            p0.draw_curves(axis, own, f"{name}, {'with' if costs else 'without'} costs", sparsest=sparsest)
            axis.set_ylim(48.0, best + 2.0)
        for label, points in dense.items():
            pair[1].axhline(points[0][1], lw=1.5, **p0.look_of(label))
    figure.supylabel("balanced accuracy (%)", fontsize=10)
    legend(figure, axes.flat, 6, fontsize=9)


@p0.for_both_readings
def malicious_claims(rows: Sequence[Row]) -> list[Claim]:
    """The paper's observations on Fig. 4."""
    contest = Contest(rows)
    return [contest.costs_help(), contest.second_order_helps(), contest.best_is_ours()]


@p0.for_both_readings
def spam_claims(rows: Sequence[Row]) -> list[Claim]:
    """The paper's observations on Fig. 5."""
    contest = Contest(rows)
    return [contest.sparse_beats_dense(), contest.second_order_helps(), contest.best_is_ours(), contest.costs_help()]


EXPERIMENTS = (
    Experiment.of(__name__, "p0-fig4", cells=cells_of(("phish-url-pdd", "kdd99")), claims=malicious_claims),
    Experiment.of(__name__, "p0-fig5", cells=cells_of(("trec07p", "reuters21578-acq")), claims=spam_claims),
)
