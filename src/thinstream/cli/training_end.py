"""The last words of ``thinstream train``."""

from typing import TYPE_CHECKING, Any

from thinstream.blend.serving import blends_of
from thinstream.budget import BudgetLearner
from thinstream.cli import late_labels
from thinstream.cli.lanes import SHARE, few_weights, lanes_of, largest_shares
from thinstream.cli.options import Output
from thinstream.cli.render import remark_on_error, remark_on_labels, say, say_skipped, show_json, threshold_in_words
from thinstream.cli.terminal import printable
from thinstream.compact import CompactLearner, needed
from thinstream.evaluate.showing import describe, percent

if TYPE_CHECKING:
    from thinstream.cli.commands.train import Training


def show_end(training: "Training", output: Output, run: Any, report: Any, asked: list[str]) -> None:
    """Shows all metrics, what was passed over, what looks odd, where the model is."""
    model, learner, skipped = run.state.model, run.state.model.learner, run.skipped
    late = hasattr(run.stream, "waiting")
    if output.json:
        found = {"model": training.model and str(training.model), "skipped": skipped, "updates": learner.n_updates}
        found |= {"threshold": model.threshold} if model.threshold else {}
        counted = report.as_dict() if report.rows else {"rows": learner.t}
        joined = {"late_labels": late_labels.counts_of(run.stream)} if late else {}
        found |= {"lanes": lanes_of(model)} if blends_of(learner) else {}
        size = {"non_zeros": learner.nnz, "features": learner.n_features}
        size |= {} if model.n_weights_met is None else {"weights_met": model.n_weights_met}
        show_json({**found, **size, **counted, **joined})
    else:
        if training.passes > 1:
            print("\nall passes together: from the second on, rows had been learned before")
        if report.rows:  # a learner that holds its rows has no scores of them before it learns
            print(f"\n{describe(report, [printable(str(label)) for label in model.classes], asked)}")
        if model.threshold:
            print(f"{'threshold':<18} {threshold_in_words(model)}{_what_it_does(run)}")
        if late:
            print(late_labels.describe(run.stream))
        if blends_of(learner):
            print(f"{'lanes':<18} {largest_shares(model)}")
        print(f"{'non-zeros':<18} {_of_weights(model)}")
        if isinstance(learner, BudgetLearner):
            used, most, sight = len(learner.table.used), learner.table.max_features, learner.table.admit
            print(f"{'features kept':<18} {used:,} of {most:,}, each from its sight number {sight} on")
            if apart := learner.table.n_apart:
                print(f"{'left out':<18} {apart:,} values of features whose number is kept under another name")
        elif isinstance(learner, CompactLearner):
            print(f"{'state':<18} {_of_state(learner)}")
        if training.model is not None:
            kept = "weights" if training.weights_only else "full"
            print(f"{'model':<18} {training.model} ({training.model.stat().st_size:,} bytes, {kept})")
            few = few_weights(model) if blends_of(learner) and not training.weights_only else None
            if few is not None and few < learner.nnz:
                print(f"{'thinner':<18} thinstream thin {training.model} --nnz {few} -m NAME ({SHARE})")
        if training.plot is not None:
            print(f"{'picture':<18} {training.plot}")
    for blend in blends_of(learner):
        for told in blend.news:
            say(f"thinstream: {told}")
    if training.goal is not None and run.chosen is None:
        say("thinstream: no threshold was chosen: no row of the class it is about came in the later part of the stream")
    for remark in late_labels.remarks(run.stream) if late else ():
        say(remark)
    if skipped:
        say_skipped(skipped, _first_reason(run))
    unmet = getattr(getattr(run.stream, "form", None), "unmet", [])
    if unmet:
        say(f"thinstream: no record has {', '.join(map(repr, unmet))}, named in --text or --ignore")
    for remark in [] if training.resume else getattr(run.stream, "remarks", []):
        say(f"thinstream: {remark}")
    if run.stream.names is not None and run.stream.names.full:
        say(f"thinstream: {len(run.stream.names):,} names are kept, as --names says; features met later have none")
    if training.goal is None:
        remark_on_error(report, model)
    if report.rows and not remark_on_labels(report.rows, report.positives, run.looks_sorted()) and 0 in report.examples:
        labels = [label for label, count in zip(run.state.model.classes, report.examples, strict=True) if not count]
        say(f"thinstream: no example is of {', '.join(map(repr, labels))}, named in --classes")


def _of_state(learner: CompactLearner) -> str:
    """What is kept, and what all numbers would take."""
    slots = len(learner.table)
    kept, all_of_it = needed(learner.inner, slots) + learner.table.nbytes, needed(learner.inner, learner.n_features)
    return f"{kept / 1e6:,.0f} MB for {slots - 1:,} features that occurred ({all_of_it / 1e6:,.0f} MB for all numbers)"


def _of_weights(model: Any) -> str:
    """Non-zeros and weights; where features are hashed those of features met, which are far fewer than the numbers."""
    learner, met = model.learner, model.n_weights_met
    if met is None:
        return f"{learner.nnz:,} of {learner.n_weights:,} weights"
    bits = model.feature_space["hashing"]["bits"]
    return f"{learner.nnz:,} of {met:,} weights of features met (hashed into 2^{bits} = {1 << bits:,} numbers)"


def _what_it_does(run: Any) -> str:
    """What a threshold does to the rows it was chosen on."""
    found = getattr(run, "chosen", None)
    if found is None:
        return ""
    shares = f"recall {percent(found.recall)} %, false alarms {percent(found.false_alarms)} %"
    return f": {shares}, precision {percent(found.precision)} % of the last {found.rows:,} rows"


def _first_reason(run: Any) -> str:
    reasons = run.stream.skipped.reasons if run.stream.skipped else []
    return reasons[0] if reasons else "before the checkpoint, or in a worker"
