"""scikit-learn's own checks on every estimator."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import thinstream as ts

MODELS = [ts.make(algorithm.name) for algorithm in ts.algorithms()] + [
    ts.CW(form="stdev"),
    ts.FOBOS(loss="logistic"),
    ts.SSOL(diagonal="exact", update_on="loss"),
    ts.AROW(covariance="full"),
    ts.SSOL(covariance="full"),
]

ONLINE = "an online learner's row of weight 2 is one step of double length, not two steps"
COSTS = "class weights are costs of steps or margins, not a reweighting of a batch objective"
#: Those that minimise an objective in which rows have weights: nothing is excused by the two above.
WEIGHTED = ("GraDes", "SCD")
#: check → reason, for every other learner.
EXCUSED = {
    "check_sample_weight_equivalence_on_dense_data": ONLINE,
    "check_sample_weight_equivalence_on_sparse_data": ONLINE,
    "check_class_weight_classifiers": COSTS,
    "check_class_weight_balanced_linear_classifier": COSTS,
}
THROUGH_0 = "no intercept unless asked for, and without one no class weight turns nearly every prediction"
#: (estimator, check) → reason.
EXCUSED_ONE = {
    ("GraDes()", "check_class_weight_classifiers"): THROUGH_0,
    ("SCD()", "check_class_weight_classifiers"): THROUGH_0,
    ("CPA()", "check_classifiers_train"): "learns on mistakes only: one pass stays below the accuracy asked here",
    (
        "CW(form='stdev')",
        "check_classifiers_train",
    ): "insists on every row: three classes that overlap are too much for it",
}
#: Checks that also give indices of 64 bits, each another compiled loop. Two algorithms are checked compiled every day:
#: SOFS is the only rule that sees indices. The others are checked as plain Python, and compiled by `make test-slow`.
WIDE = ("check_estimator_sparse_array", "check_estimator_sparse_matrix")
COMPILED_WIDE = ("FSOL", "SOFS")


def cases():
    for each in MODELS:
        for model, check in estimator_checks_generator(each):
            title = check.func.__name__
            reason = EXCUSED_ONE.get((repr(each), title))
            if type(each).__name__ not in WEIGHTED:
                reason = reason or EXCUSED.get(title)
            marks = [pytest.mark.xfail(reason=f"excused: {reason}", strict=False)] if reason else []
            if title in WIDE and type(each).__name__ not in COMPILED_WIDE:
                marks.append(pytest.mark.interpreted)
            yield pytest.param(model, check, id=f"{each!r}-{title}", marks=marks)


@pytest.mark.parametrize(("model", "check"), list(cases()))
def test_check_estimator(model, check):
    """Each named check passes; those excused say why."""
    check(model)
