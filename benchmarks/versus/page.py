"""The page: caveats first, then the machine, then tables. Made of OUT.csv and what is kept, and of nothing else."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.versus import drawing, page_auto, page_thin, page_tried
from benchmarks.versus.judging import OURS, best_peer, by_tool, differences, thin_enough, verdict
from benchmarks.versus.keeping import load, merged, save
from benchmarks.versus.sets import SETS, SHARE, TRIAL_ROWS
from benchmarks.versus.tools import TOOLS, batch, flow
from papers.experiment import markdown
from papers.keeping import this_machine

from thinstream.atomic import replacing

Row = dict[str, Any]
CAVEATS = f"""Caveats first.

- One order of the rows and one split for each set. Sets with a test part of their own keep it; of the others
  {SHARE:.0%} are learned and the rest is the test, at one random permutation (elec2 and trec07p: in time). Most test
  sets are small, so most differences are within chance; the standard error beside each is that of the paired test rows.
  It does not tell what another order of the rows would have changed.
- *The best peer* is the one with the lowest **test** error of those tuned, which no user could have known: that favours
  the peers. Ours is what validation chose, once.
- Everyone takes one pass in the same order, but liblinear, a batch solver that reads the rows until it converges: it is
  there for reference and counts nowhere.
- *Tuned* is 24 candidates for each tool, listed in `benchmarks/versus/tools`: its learners, losses, rates, and rows
  as they are or of unit length. River has 12, and only sets of up to {flow.LONGEST:,} non-zeros and reuters21578-acq
  (it is slow); liblinear has 8, and sets of up to {batch.LONGEST:,}.
- When thinstream's lists changed last, thinstream alone was run again, on the same rows in the same order; the peers'
  numbers are those of the run before. Of the peers, the best one's model of each set was learned again, and all of them
  on five sets: errors and non-zeros came out the same to the last digit.
- Candidates are compared by their error on rows before these are learned, over the later half of the training rows
  (the first {TRIAL_ROWS:,}, where there are more); on sets in time by the last fifth, which is not learned.
  scikit-learn is scored a fiftieth of the rows at a time; liblinear learns the rows before those that are compared.
- The effort behind the lists was not equal. thinstream's were drawn up after trying some hundred settings on the
  training rows of most of these sets, Vowpal Wabbit's after 16 settings on 15 of the 22, by errors on rows before
  they were learned; those of the others were written down without a trial. So ours were fitted most closely to these
  sets, which favours thinstream. Test rows had no part in drawing up the lists.
- Three things were changed after the first test errors were seen: the top of SSOL's l1 range, how many pieces
  scikit-learn's trials are cut into, and how many rows of a long set decide between candidates. Every
  number here was made after that. What was tried later is in sections of its own and enters none of the first tables.
- thinstream may choose among algorithms, and on sets of up to 1000 features among full covariance matrices, which the
  others do not have and which cost time.
- Vowpal Wabbit runs through its Python package, its defaults with squared loss and 18 bits, else with 20 bits so that
  no two features collide. scikit-learn's learning rate `pa1` stands for its deprecated PassiveAggressiveClassifier.
- Sizes are of models that only predict: weights for thinstream and Vowpal Wabbit, pickles for scikit-learn (dense) and
  River.
- Times are of one machine on one day. Text to model is measured in a process of its own, from opening the text to the
  model on disk, with what is imported or loaded from a compile cache on the way; on small sets that is most of it.
  A process imports its own tool only, and numpy."""

TRIED = """What was tried for thinstream before its lists were fixed, on training rows alone: with an intercept and
without; rows as they are and of unit length; AROW, SCW, CW, NAROW, PA, SSOL, ARCSOGD, AdaRDA and AdaFOBOS over wider
ranges than are listed; on some sets of few features full covariance matrices. For elec2 that was judged by rows before
they were learned, which is not how its candidates are compared. What was tried after the test errors were known is
[below](#what-was-tried-where-ours-is-above). Since then FTRLProximal, NAG and Coin have taken the places of
candidates that validation had chosen on no set; their rates are the usual ones, not looked for. Before that,
{before}."""
#: What the first table said with the lists before the last change.
BEFORE = "thinstream was at or below the best peer on 12 of 22 sets, and above by more than two standard errors on 3"


def write(out: Path, kept: Mapping[str, Sequence[Row]], smoke: bool = False) -> None:
    """OUT.csv, OUT.md, OUT.png and OUT-times.png."""
    out.parent.mkdir(parents=True, exist_ok=True)
    table = out.with_name(f"{out.name}.csv")
    new = [row for rows in kept.values() for row in rows]
    rows = merged(load(table), [*new, *differences(new), *_surroundings()])
    save(table, rows)
    pictures = {"": drawing.sizes, "-times": drawing.times}
    for ending, draw in pictures.items():
        draw(rows, out.with_name(f"{out.name}{ending}.png"))
    with replacing(out.with_name(f"{out.name}.md")) as file:
        file.write_text("\n\n".join(part for part in _parts(rows, out.name, smoke) if part) + "\n", encoding="utf-8")


def _surroundings() -> list[Row]:
    """The machine and the versions, as rows."""
    packages = {tool.package for tool in TOOLS.values() if tool.package and not tool.missing()} | {"numpy", "numba"}
    versions = ", ".join(f"{name} {version(name)}" for name in sorted(packages, key=str.lower))
    return [
        {"set": "-", "tool": "-", "column": "machine", "candidate": this_machine()},
        {"set": "-", "tool": "-", "column": "versions", "candidate": versions},
    ]


def _parts(rows: Sequence[Row], name: str, smoke: bool) -> list[str]:
    told = {row["column"]: row["candidate"] for row in rows if row["set"] == "-"}
    return [
        "# thinstream beside its peers",
        "Written by `python -m benchmarks.versus`, its parts by `--auto`, `--thin`, `--tried`, `--times`; no number is "
        "typed by hand.",
        "**A smoke run on a few rows: its numbers mean nothing.**" if smoke else "",
        CAVEATS,
        f"Machine: {told['machine']}. Versions: {told['versions']}.",
        _errors(rows),
        page_auto.errors(rows),
        _sparse(rows, name),
        page_thin.thin(rows),
        _balanced(rows),
        _defaults(rows),
        _chosen(rows),
        _times(rows, name),
        page_tried.errors(rows),
        page_tried.sparse(rows),
        f"All rows, those of the sparse models included: [{name}.csv]({name}.csv).",
    ]


def _table(rows: Sequence[Row], column: str, value: Callable[[Row], str], names: Sequence[str] = ()) -> str:
    """A line for each set, a column for each tool; the best of those of one pass in bold."""
    tools = [tool for tool in TOOLS if any(row["tool"] == tool and row["column"] == column for row in rows)]
    lines = []
    for name in names or SETS:
        found = by_tool(rows, name, column)
        if found:
            lines.append([name, *(value(found[tool]) if tool in found else "" for tool in tools)])
    return markdown(["set", *tools], lines) if lines else ""


def _errors(rows: Sequence[Row]) -> str:
    found = {row["set"]: row for row in rows if row["column"] == "difference"}
    if not found:
        return ""
    tools = [tool for tool in TOOLS if any(row["tool"] == tool and row["column"] == "tuned" for row in rows)]
    lines = []
    for name in SETS:
        if name not in found:
            continue
        tuned, row = by_tool(rows, name, "tuned"), found[name]
        lowest = min(one["error"] for tool, one in tuned.items() if TOOLS[tool].one_pass)
        cells = [_bold(tuned[tool]["error"], lowest, TOOLS[tool].one_pass) if tool in tuned else "" for tool in tools]
        difference = f"{row['difference']:+.2f} ± {row['difference_se']:.2f}"
        lines.append([name, f"{tuned[OURS]['rows']:,}", *cells, difference, verdict(row)])
    good = sum(row["difference"] <= 0 for row in found.values())
    worse = sum(row["difference"] > 2 * row["difference_se"] for row in found.values())
    said = (
        f"Test error after one pass, in percent, tuned. thinstream is at or below the best peer on {good} of "
        f"{len(found)} sets; on {worse} it is above by more than two standard errors."
    )
    header = ["set", "rows", *tools, "ours less the best peer's", "ours is"]
    absent = [name for name in SETS if name not in found]
    rest = f"\n\nNot run yet: {', '.join(absent)}." if absent else ""
    return f"## Error, tuned\n\n{said}\n\n{markdown(header, lines)}{rest}\n\n{TRIED.format(before=BEFORE)}"


def _bold(value: float, lowest: float, equal: bool) -> str:
    return f"**{value:.2f}**" if equal and value == lowest else f"{value:.2f}"


def _sparse(rows: Sequence[Row], name: str) -> str:
    found = [row for row in rows if row["column"] == "sparse difference"]
    found.sort(key=lambda row: list(SETS).index(row["set"]))
    if not found:
        return ""
    lines = [
        [
            row["set"],
            f"{row['peer']}: {row['peer_error']:.2f}",
            f"{row['peer_nnz']:,}",
            row["candidate"].split()[0],
            f"{row['error']:.2f}",
            f"{row['difference']:+.2f} ± {row['difference_se']:.2f}",
            f"{row['nnz']:,}",
            f"1/{row['peer_nnz'] / row['nnz']:.1f}",
            "yes" if thin_enough(row) else "**no**",
        ]
        for row in found
    ]
    met = sum(map(thin_enough, found))
    said = f"""The smallest of 24 sparse models (AdaRDA and SSOL, l1 swept in one pass) whose *validation* error is
within a standard error of the best peer's. On {met} of {len(found)} text sets it has at most a tenth of the peer's
non-zeros, at a test error that is not above the peer's by more than a standard error. The peers' own sparse models
(`--l1`, the l1 penalty; 24 each) are in the picture: lines are what sparse models reach, points the tuned ones.
A line leaves out what a smaller model beats on the test rows, for every tool alike. The dashed line is Auto,
[thinned](#thin-models)."""
    header = [
        "set",
        "best peer",
        "non-zeros",
        "ours",
        "error",
        "less the peer's",
        "non-zeros",
        "of the peer's",
        "≤ 1/10",
    ]
    return f"## Sparse models\n\n{said}\n\n{markdown(header, lines)}\n\n![error against size]({name}.png)"


def _balanced(rows: Sequence[Row]) -> str:
    names = [name for name, one in SETS.items() if one.rare]
    table = _table(rows, "balanced", lambda row: f"{row['balanced_accuracy']:.2f}", names)
    if not table:
        return ""
    ours = {name: by_tool(rows, name, "balanced").get(OURS) for name in names}
    peers = {name: best_peer(rows, name, "balanced") for name in names}
    pairs = [(ours[name], peers[name]) for name in names]
    good = sum(one["balanced_accuracy"] >= peer["balanced_accuracy"] for one, peer in pairs if one and peer)
    plain = _table(rows, "tuned", lambda row: f"{row['balanced_accuracy']:.2f}", names)
    return f"""## Balanced accuracy where positives are rare

The mean of sensitivity and specificity, in percent, with positives weighted by the ratio of the classes (thinstream:
the running ratio; the others: that of all training rows), the same candidates, chosen by balanced accuracy. thinstream
is at or above the best peer on {good} of {sum(bool(one and peer) for one, peer in pairs)}.

{table}

The same of the models of the first table, which were tuned for few errors:

{plain}"""


def _defaults(rows: Sequence[Row]) -> str:
    table = _table(rows, "defaults", lambda row: f"{row['error']:.2f}")
    said = "Test error in percent with each tool's defaults (thinstream: AROW, on rows as they are)."
    ours = [row for row in rows if row["tool"] == "thinstream" and "error" in row]
    errors = {(row["set"], row["column"]): row["error"] for row in ours}
    names = [name for name, column in errors if column == "defaults" and (name, "tuned") in errors]
    better = [name for name in names if errors[name, "defaults"] < errors[name, "tuned"]]
    if better:
        said += (
            f" On {len(better)} of {len(names)} sets thinstream's default is better on the test rows than what"
            f" validation chose ({', '.join(better)}). The defaults, of whatever tool, are not among the candidates."
        )
    return f"## Error, defaults\n\n{said}\n\n{table}" if table else ""


def _chosen(rows: Sequence[Row]) -> str:
    table = _table(rows, "tuned", lambda row: f"{row['candidate']} ({_size(row['bytes'])})".replace("|", " "))
    return f"## What was chosen, and its size\n\n{table}" if table else ""


def _size(count: int) -> str:
    """Bytes in a few characters.

    >>> _size(900), _size(51_000)
    ('0.9 kB', '51 kB')
    """
    return f"{count / 1000:.1f} kB" if count < 10_000 else f"{count / 1000:.0f} kB"


def _times(rows: Sequence[Row], name: str) -> str:
    seconds = _table(rows, "times", lambda row: f"{row['seconds']:.2f} ({row['process_s']:.2f})")
    if not seconds:
        return "## Times\n\nNot measured yet: `python -m benchmarks.versus --times`."
    memory = _table(rows, "times", lambda row: f"{row['peak_mb']:.0f}")
    tuned = [name for name in SETS if any("tuning_s" in row for row in by_tool(rows, name, "times").values())]
    tuning = _table(rows, "times", lambda row: f"{row['tuning_s']:.1f}" if "tuning_s" in row else "", tuned or ["-"])
    tuned_now = {(row["set"], row["tool"]): row["candidate"] for row in rows if row["column"] == "tuned"}
    timed = [row for row in rows if row["column"] == "times"]
    other = [row["set"] for row in timed if tuned_now.get((row["set"], row["tool"])) != row["candidate"]]
    remark = f" Of the model that was chosen from the lists before, on {', '.join(other)}." if other else ""
    return f"""## Times

Seconds from text to the tuned model (the whole process).{remark}

{seconds}

![times]({name}-times.png)

Peak memory, in MB:

{memory}

Seconds of tuning, all candidates: thinstream in one pass over the text, the others one run after the other (Vowpal
Wabbit from its cache, scikit-learn and River from memory, reading included).

{tuning}"""
