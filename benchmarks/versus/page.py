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

from thinstream.files import replacing

Row = dict[str, Any]
CAVEATS = f"""Read these caveats first.

- There is one order of the rows and one split per dataset. Datasets with a test part keep it. From the others,
  {SHARE:.0%} of the rows are used for training, by one random permutation (elec2 and trec07p: by time). Most test
  parts are small, so most differences are within chance. The standard errors are those of paired test rows. They do
  not include the effect of another order of the rows.
- *The best tool* has the lowest **test** error of all other tuned tools. No user could have known which one that is,
  so this favors the other tools. Ours is the model that validation chose, once.
- All tools make one pass in the same order, except liblinear. It is a batch solver that reads the rows until it
  converges, is listed for reference, and does not compete.
- *Tuned* means 24 candidates per tool, listed in `benchmarks/versus/tools`: its learners, losses, rates, and raw rows
  or rows of unit length. River has 12 candidates, and runs on datasets with at most {flow.LONGEST:,} non-zeros and on
  reuters21578-acq, because it is slow. liblinear has 8, and runs on datasets with at most {batch.LONGEST:,}.
- After the last change of thinstream's candidates, only thinstream was run again, on the same rows in the same order.
  The other tools keep their numbers. As a check, the best model of the other tools was trained again on each dataset,
  and all models on five datasets: errors and non-zeros were identical.
- Candidates are compared by their progressive error over the later half of the training rows (at most the first
  {TRIAL_ROWS:,}). Datasets in time order use the last fifth, without learning it. scikit-learn is scored on a fiftieth
  of the rows at a time. liblinear learns the rows before those that are compared.
- The lists did not get the same effort. thinstream's followed a few hundred trials on the training rows of most of
  these datasets, Vowpal Wabbit's followed 16 trials on 15 of the 22, by progressive error. The other lists
  were written without a trial. So thinstream is fitted most closely to these datasets, which favors it. Test
  rows were not used to write the lists.
- Three things changed after the first test errors were known: the top of SSOL's l1 range, the number of parts of
  scikit-learn's trials, and the number of rows of a long dataset that are used to choose. Every
  number on this page was computed after that. Later trials are in separate sections and not in the first tables.
- thinstream chooses among algorithms and, on datasets with at most 1000 features, among full covariance matrices. The
  other tools have no such models, which cost time.
- Vowpal Wabbit runs through its Python package, with its defaults (squared loss, 18 bits) or with 20 bits, so that
  no features collide. scikit-learn's learning rate `pa1` replaces its deprecated PassiveAggressiveClassifier.
- Sizes are those of models that only predict: weights for thinstream and Vowpal Wabbit, pickles for scikit-learn
  (dense) and River.
- Times are from one machine on one day. Text to model is measured in a separate process, from opening the text to the
  model on disk, including imports and loading of compiled code. On small datasets, these dominate.
  A process imports only its tool and numpy."""

TRIED = """These settings were tried for thinstream before its lists were fixed, on training rows only: with and without
an intercept; raw rows and rows of unit length; AROW, SCW, CW, NAROW, PA, SSOL, ARCSOGD, AdaRDA and AdaFOBOS over wider
ranges than in the lists; full covariance matrices on some datasets with few features. On elec2, they were compared by
progressive error, unlike the candidates. A [later section](#variants-tried-after-the-test-errors-were-known) lists
what was tried after the test errors were known. Since then, FTRLProximal, NAG and Coin have replaced
candidates that validation chose on no dataset, with usual rates that were not tuned. Before that,
{before}."""
#: What the first table said with the lists before the last change.
BEFORE = (
    "thinstream was at or below the best tool on 12 of 22 datasets, and above by more than two standard errors on 3"
)


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
        "# thinstream compared with other tools",
        "`python -m benchmarks.versus` writes this page (parts: `--auto`, `--thin`, `--tried`, `--times`). No number "
        "is typed by hand.",
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
        f"All results: [{name}.csv]({name}.csv).",
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
        f"Test error after one pass, in percent, tuned. thinstream is at or below the best tool on {good} of "
        f"{len(found)} datasets, and above it by more than two standard errors on {worse}."
    )
    header = ["set", "rows", *tools, "ours minus the best tool's", "ours is"]
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
    said = f"""The table has the smallest of 24 sparse models (AdaRDA and SSOL, l1 varied in one pass) whose
*validation* error is within a standard error of the best tool's. On {met} of {len(found)} text datasets, it has at
most a tenth of that
tool's
non-zeros, with a test error that is at most one standard error higher. The picture shows the sparse models of
all tools (`--l1`, the l1 penalty; 24 each) as lines, and the tuned models as points.
Lines skip models that a smaller one beats on the test rows, for all tools alike. The dashed line is Auto,
[refitted](#thin-models)."""
    header = [
        "set",
        "best tool",
        "non-zeros",
        "ours",
        "error",
        "minus the tool's",
        "non-zeros",
        "share",
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
    return f"""## Balanced accuracy with rare positives

The mean of sensitivity and specificity, in percent. Positives are weighted by the ratio of the classes (thinstream:
the running ratio; others: that of all training rows). The candidates are the same, chosen by balanced accuracy.
thinstream
is at or above the best tool on {good} of {sum(bool(one and peer) for one, peer in pairs)}.

{table}

The models of the first table, which were tuned for error:

{plain}"""


def _defaults(rows: Sequence[Row]) -> str:
    table = _table(rows, "defaults", lambda row: f"{row['error']:.2f}")
    said = "Test error in percent with each tool's defaults (thinstream: AROW, on raw rows)."
    ours = [row for row in rows if row["tool"] == "thinstream" and "error" in row]
    errors = {(row["set"], row["column"]): row["error"] for row in ours}
    names = [name for name, column in errors if column == "defaults" and (name, "tuned") in errors]
    better = [name for name in names if errors[name, "defaults"] < errors[name, "tuned"]]
    if better:
        said += (
            f" On {len(better)} of {len(names)} datasets, thinstream's default is better on the test rows than the"
            f" model that validation chose ({', '.join(better)}). Defaults are not among the candidates, for all tools."
        )
    return f"## Error of default parameters: AROW and other tools\n\n{said}\n\n{table}" if table else ""


def _chosen(rows: Sequence[Row]) -> str:
    table = _table(rows, "tuned", lambda row: f"{row['candidate']} ({_size(row['bytes'])})".replace("|", " "))
    return f"## Chosen models and their sizes\n\n{table}" if table else ""


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
    remark = f" On {', '.join(other)}, they belong to a model chosen from the previous lists." if other else ""
    return f"""## Times

Seconds from text to the tuned model (the whole process).{remark}

{seconds}

![times]({name}-times.png)

Peak memory, in MB:

{memory}

Seconds of tuning over all candidates: thinstream in one pass over the text, the others in one run per candidate (Vowpal
Wabbit from its cache, scikit-learn and River from memory, including reading).

{tuning}"""
