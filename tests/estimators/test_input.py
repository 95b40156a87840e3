"""Bad input raises an error that says what, allowed, given and where, and leaves the model exactly as it was."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from thinstream.batch import Batch
from thinstream.data import Numbering, from_memory
from thinstream.errors import InvalidInputError, InvalidParameterError, UnknownNameError
from thinstream.lanes.learner import Learner

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 1.0]])
Y = np.array([0, 1, 0, 1])


def csr(data, indices, indptr, shape):
    """A CSR matrix as given, without scipy's own tidying."""
    matrix = sp.csr_matrix(shape)
    matrix.data, matrix.indices, matrix.indptr = (np.asarray(a) for a in (data, indices, indptr))
    return matrix


def put(value, row, column):
    bad = X.copy()
    bad[row, column] = value
    return bad


BAD = {
    "nan": (put(np.nan, 1, 1), Y, None, r"NaN at row 1, column 1"),
    "nan in sparse": (sp.csr_matrix(put(np.nan, 3, 0)), Y, None, r"NaN at row 3, column 0"),
    "infinity": (put(-np.inf, 0, 2), Y, None, r"infinity at row 0, column 2"),
    "unknown label": (X, [0, 1, 7, 1], None, r"labels must be 0 or 1, got 7 at row 2"),
    "nan label": (X, [0, 1, np.nan, 1], None, r"y contains NaN at row 2"),
    "too few labels": (X, Y[:3], None, r"X has 4 rows, y has 3 labels"),
    "too many columns": (np.ones((2, 4)), Y[:2], None, r"X has 4 features, but FSOL is expecting 3"),
    "too few columns": (np.ones((2, 2)), Y[:2], None, r"X has 2 features, but FSOL is expecting 3"),
    "no rows": (np.empty((0, 3)), Y[:0], None, r"0 sample"),
    "weight nan": (X, Y, [1, 1, np.nan, 1], r"sample_weight must be finite and not negative, got nan at row 2"),
    "weight negative": (X, Y, [1, -2.0, 1, 1], r"sample_weight must be finite and not negative, got -2.0 at row 1"),
    "weight shape": (X, Y, [1, 1], r"sample_weight must have shape \(4,\)"),
    "negative index": (csr([1.0, 1.0], [0, -1], [0, 1, 2], (2, 3)), Y[:2], None, r"from 0 to 2 .*got -1 in row 1"),
    "index too large": (csr([1.0, 1.0], [0, 9], [0, 1, 2], (2, 3)), Y[:2], None, r"from 0 to 2 .*got 9 in row 1"),
    "broken row pointers": (
        csr([1.0, 1.0], [0, 1], [0, 2, 1], (2, 3)),
        Y[:2],
        None,
        r"row pointers are broken at row 1",
    ),
    "pointer past the end": (
        csr([1.0, 1.0], [0, 1], [0, 1, 9], (2, 3)),
        Y[:2],
        None,
        r"row pointers are broken at row 1",
    ),
    "strings": (
        np.array([["a", "b", "c"]]),
        Y[:1],
        None,
        r"X must contain numbers, got the string 'a'. Pass categories",
    ),
    "lists with strings": ([[1.0, 2.0, "b"]], Y[:1], None, r"X must contain numbers, got the string 'b'"),
    "labels of two types": (X, [0, 1, "spam", 1], None, r"y has text and other labels: 0 at row 0, 'spam' at row 2"),
    "objects of two types": (X, np.array(["a", 1, "a", 1], object), None, r"text and other labels: 'a' at row 0, 1 at"),
    "other classes": (X, Y, None, r"classes must be the same as in the first call"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("verb", ["partial_fit", "learn"])
def test_bad_input_raises_and_changes_nothing(case, verb):
    """The message says where; the model's bits are those from before, and it goes on learning."""
    bad_X, bad_y, weights, message = BAD[case]
    model = ts.FSOL().partial_fit(X, Y, classes=[0, 1])
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        getattr(model, verb)(bad_X, bad_y, classes=[0, 5] if case == "other classes" else None, sample_weight=weights)
    assert pickle.dumps(model) == before
    model.partial_fit(X, Y)


@pytest.mark.parametrize("case", [c for c in BAD if "columns" not in c and "classes" not in c and "label" not in c])
def test_a_first_call_that_fails_leaves_no_model(case):
    """Nothing is fitted by halves."""
    bad_X, bad_y, weights, message = BAD[case]
    model = ts.SSOL()
    with pytest.raises(ValueError, match=message):
        model.partial_fit(bad_X, bad_y, classes=[0, 1], sample_weight=weights)
    with pytest.raises(AttributeError, match="because it is not fitted"):
        model.coef_  # noqa: B018
    assert not model.__sklearn_is_fitted__()


def test_a_failing_refit_keeps_the_fitted_model():
    """``fit`` replaces the model only once everything was checked."""
    model = ts.FSOL().fit(X, Y)
    before = pickle.dumps(model)
    with pytest.raises(InvalidInputError, match="NaN"):
        model.fit(np.full((4, 5), np.nan), Y)  # of another width, too
    assert pickle.dumps(model) == before
    assert len(model.predict(X)) == 4


def test_an_untidy_csr_is_tidied_on_a_copy():
    """Unsorted, duplicate and zero entries are sorted, summed and dropped; the caller's matrix stays as it was."""
    untidy = csr([2.0, 1.0, 0.0, 1.5, 1.5, 4.0, -4.0], np.int32([2, 0, 1, 1, 1, 0, 0]), [0, 3, 7], (2, 3))
    kept = [a.copy() for a in (untidy.data, untidy.indices, untidy.indptr)]
    one = ts.AROW(dtype="float64").fit(untidy, [0, 1])
    two = ts.AROW(dtype="float64").fit(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), [0, 1])
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.variance_, two.variance_)
    for array, before in zip((untidy.data, untidy.indices, untidy.indptr), kept, strict=True):
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("verb", ["fit", "partial_fit", "learn"])
@pytest.mark.parametrize("row", [0, 63, 64, 150, 199])
def test_rows_checked_while_they_are_learned(verb, row):
    """A first call checks as it goes: an untidy row is tidied wherever it stands, a bad one is found and named."""
    rng = np.random.default_rng(row)
    dense = rng.normal(size=(200, 6)) * (rng.random((200, 6)) < 0.5)
    dense[row, :3] = [1.0, 2.0, 3.0]
    y, more = np.arange(200) % 2, {} if verb == "fit" else {"classes": [0, 1]}
    tidy, untidy = sp.csr_matrix(dense, dtype=np.float32), sp.csr_matrix(dense, dtype=np.float32)
    start = untidy.indptr[row]
    for array in (untidy.indices, untidy.data):
        array[start], array[start + 1] = array[start + 1], array[start]
    one, two = ts.AROW(), ts.AROW()
    scores = [getattr(model, verb)(X, y, **more) for model, X in ((one, tidy), (two, untidy))]
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert (one.t_, one.n_updates_, one.n_mistakes_) == (two.t_, two.n_updates_, two.n_mistakes_)
    if verb == "learn":
        np.testing.assert_array_equal(*scores)
    untidy.data[start] = np.nan
    with pytest.raises(InvalidInputError, match=f"NaN at row {row}, column 1"):
        getattr(ts.AROW(), verb)(untidy, y, **more)


def test_duplicates_that_overflow_are_found():
    """Two finite values whose sum is not finite are no way around the check."""
    big = np.finfo(np.float64).max
    with pytest.raises(InvalidInputError, match="infinity at row 0, column 1"), np.errstate(over="ignore"):
        Batch.of(np.array([0, 2]), np.array([1, 1]), np.array([big, big]), 2)


@pytest.mark.parametrize("value", [1e16, 1e300])
def test_a_value_too_large_for_float32_is_refused(value):
    """A value whose square (or itself) overflows in the model's precision would leave NaN behind; it is not taken."""
    model = ts.SSOL().partial_fit(X, Y, classes=[0, 1])
    before = pickle.dumps(model)
    for verb in (lambda: model.partial_fit(put(value, 2, 0), Y), lambda: model.predict(put(value, 2, 0))):
        with pytest.raises(InvalidInputError, match=r"at row 2, column 0; float32 allows 1e\+15.*dtype='float64'"):
            verb()
    assert pickle.dumps(model) == before
    assert np.isfinite(ts.SSOL(dtype="float64").fit(put(1e16, 2, 0), Y).coef_).all()


def test_empty_rows_are_legal():
    """A row without features scores 0 and counts."""
    model = ts.FSOL(fit_intercept=False)
    assert model.learn(sp.csr_matrix((2, 3)), [0, 1], classes=[0, 1]).tolist() == [0.0, 0.0]
    assert (model.t_, model.n_mistakes_, model.nnz_) == (2, 1, 0)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("FSOL", {"eta": 0.0}, r"FSOL: eta must be a number > 0, got 0.0"),
        ("FSOL", {"eta": "fast"}, r"FSOL: eta must be a number > 0, got 'fast'"),
        ("FSOL", {"eta": np.inf}, r"FSOL: eta must be a number > 0, got inf"),
        ("FSOL", {"eta": True}, r"FSOL: eta must be a number > 0, got True"),
        ("FSOL", {"l1": -1e-9}, r"FSOL: l1 must be a number ≥ 0, got -1e-09"),
        ("FSOL", {"l1_schedule": "up"}, r"l1_schedule must be 'eta', 'const', 'sqrt', 'linear' or 'inv_t', got 'up'"),
        ("STG", {"period": 0}, r"STG: period must be a whole number ≥ 1, got 0"),
        ("STG", {"period": 1.5}, r"STG: period must be a whole number ≥ 1, got 1.5"),
        ("STG", {"ceiling": -1}, r"STG: ceiling must be a number > 0, or None, got -1"),
        ("SOFS", {"B": -3}, r"SOFS: B must be a whole number ≥ 1, got -3"),
        ("StableSparsePerceptron", {"max_density": 1.5}, r"max_density must be a number > 0 and ≤ 1, or None, got 1.5"),
        ("FSOL", {"dtype": "float16"}, r"FSOL: dtype must be 'float32' or 'float64', got 'float16'"),
        ("FSOL", {"n_passes": 0}, r"FSOL: n_passes must be a whole number ≥ 1, got 0"),
        ("FSOL", {"shuffle": "yes"}, r"FSOL: shuffle must be True or False, got 'yes'"),
        ("FSOL", {"class_weight": "unbalanced"}, r"class_weight must be None, 'balanced' or a dict"),
        (
            "FSOL",
            {"class_weight": {3: 1.0}},
            r"class_weight has the label 3, which is not a class; the classes are 0 and 1",
        ),
        ("FSOL", {"class_weight": {1: 0.0}}, r"class_weight\[1\] must be a number > 0, got 0.0"),
    ],
)
def test_parameters_out_of_range(name, parameters, message):
    """The message names algorithm, parameter, what is allowed and what was given."""
    with pytest.raises(InvalidParameterError, match=message):
        ts.make(name, **parameters).fit(X, Y)


def test_unknown_names():
    """A misspelt algorithm or parameter is met with what there is."""
    with pytest.raises(UnknownNameError, match="unknown algorithm 'sol'; did you mean 'SSOL'"):
        ts.make("sol")
    with pytest.raises(TypeError, match="FSOL has no parameter 'rate'; it has eta, l1"):
        ts.FSOL(rate=1)
    with pytest.raises(InvalidParameterError, match="FSOL has no parameter 'rate'; it has 'eta', 'l1'"):
        Learner("fsol", n_features=2, rate=1)
    with pytest.raises(AttributeError, match="no attribute 'FSOLX'"):
        ts.FSOLX  # noqa: B018


def test_rules_that_need_the_dimension_refuse_to_grow():
    """max_density is a share of d, which a growing model does not know."""
    with pytest.raises(InvalidParameterError, match="grow=True is not possible"):
        ts.StableSparsePerceptron(max_density=0.5, grow=True).partial_fit(X, Y, classes=[0, 1])


def test_parameters_belong_to_the_state():
    """Changed in the middle of a stream they are refused, not ignored; ``fit`` takes them."""
    model = ts.FSOL(eta=0.1).partial_fit(X, Y, classes=[0, 1])
    model.set_params(eta=100.0, n_passes=3)
    with pytest.raises(InvalidParameterError, match=r"FSOL: eta was changed from 0.1 to 100.0 after learning began"):
        model.partial_fit(X, Y)
    assert model.fit(X, Y).t_ == 12


def test_growing_models_keep_their_column_names():
    """Known columns must come under their names; new ones are learned; a failed call changes nothing."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = ts.FSOL(grow=True).partial_fit(frame[["a", "b"]], Y, classes=[0, 1]).partial_fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    for verb in (lambda: model.partial_fit(frame[["b", "a", "c"]], Y), lambda: model.predict(frame[["b", "a", "c"]])):
        with pytest.raises(InvalidInputError, match="column 0 of X must have the name 'a' as in training, got 'b'"):
            verb()
    assert len(model.predict(frame[["a"]])) == 4


def test_parameters_must_fit_the_precision():
    """A parameter that is infinite in float32 is refused there."""
    with pytest.raises(InvalidParameterError, match=r"FSOL: eta must be at most 3.4e\+38 in float32, got 1e\+300"):
        ts.FSOL(eta=1e300).fit(X, Y)


def test_keywords_only_and_types_as_dtype():
    """Said in the user's terms; numpy's own types name a precision as well."""
    with pytest.raises(TypeError, match=r"SSOL accepts only keyword arguments, such as SSOL\(eta=0.5\)"):
        ts.SSOL(0.5)
    assert ts.FSOL(dtype=np.float64).fit(X, Y).coef_.dtype == np.float64
    with pytest.raises(InvalidInputError, match="classes must contain all labels, got"):
        ts.FSOL().partial_fit(X, Y, np.ones(4))
    assert repr(ts.algorithms()[0]).startswith("<AdaFOBOS: ")
    assert "datasets" in dir(ts)


def test_one_class_only():
    """An error, not nonsense."""
    with pytest.raises(ValueError, match="got one class, 1"):
        ts.FSOL().fit(X, [1, 1, 1, 1])


def test_the_first_call_needs_both_classes():
    """``partial_fit`` always asks for classes; ``learn`` does so unless several occur."""
    with pytest.raises(ValueError, match="classes= must be passed on the first call to partial_fit"):
        ts.FSOL().partial_fit(X, Y)
    with pytest.raises(ValueError, match="classes= must be passed on the first call to learn"):
        ts.FSOL().learn(X, [1, 1, 1, 1])
    assert ts.FSOL().learn(X, Y).shape == (4,)


def test_probabilities_only_for_the_logistic_loss():
    """``predict_proba`` is absent otherwise."""
    assert not hasattr(ts.FSOL(), "predict_proba")
    assert not hasattr(ts.FOBOS(), "predict_proba")
    model = ts.FOBOS(loss="logistic").fit(X, Y)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-model.decision_function(X))), rtol=1e-6)


DICTS, TEXTS, ANSWERS = [{"user": "ann"}, {"user": "bob"}], ["free offer", "see you"], [0, 1]


@pytest.mark.parametrize("name", ["auto", "arow", "fgm"])
@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_dicts_and_texts_are_told_how_they_are_learned(name, first):
    model = ts.make(name)
    if not hasattr(model, first):
        return
    more = {} if first == "fit" else {"classes": [0, 1]}
    for X in (DICTS, np.array(DICTS), DICTS[0]):
        with pytest.raises(InvalidInputError, match=r"got dicts\. Use fit_stream") as error:
            getattr(model, first)(X, ANSWERS, **more)
        assert "from_memory(list(zip(X, y)), hasher=Numbering())" in str(error.value)
    for texts in (TEXTS, np.array(TEXTS), TEXTS[0]):
        with pytest.raises(InvalidInputError, match=r"got strings.*HashingVectorizer") as error:
            getattr(model, first)(texts, ANSWERS, **more)
        assert "open_stream('texts.csv', text=('text',))" in str(error.value)


def test_what_is_said_of_dicts_and_texts_works(tmp_path):
    by_name = ts.AROW().fit_stream(from_memory(list(zip(DICTS, ANSWERS, strict=True)), hasher=Numbering()))
    assert by_name.predict(DICTS).tolist() == [0, 1]
    (tmp_path / "texts.csv").write_text("label,text\n0,free offer\n1,see you\n")
    by_word = ts.AROW().fit_stream(ts.open_stream(tmp_path / "texts.csv", text=("text",)))
    assert by_word.predict(TEXTS).tolist() == [0, 1]


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("verb", ["partial_fit", "predict"])
def test_missing_cells_of_frames_are_told_by_column(package, verb):
    frames = pytest.importorskip(package)
    X = frames.DataFrame({"size": [1.0, 2.0], "age": [30.0, float("nan")]})
    model = ts.AROW().fit(X.fillna(0) if package == "pandas" else X.fill_nan(0), [0, 1])
    given = {"partial_fit": (X, [0, 1]), "predict": (X,)}[verb]
    with pytest.raises(InvalidInputError, match=r"NaN at row 1, column 'age'.*fit the model on such a frame"):
        getattr(model, verb)(*given)
    assert ts.AROW().fit(X, [0, 1]).predict(X).tolist() == [0, 1]


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), "pandas"], ids=repr)
@pytest.mark.parametrize("kind", [list, tuple, lambda y: np.array(y, dtype=object)])
def test_every_row_has_a_label(missing, kind):
    missing = pytest.importorskip("pandas").NA if missing == "pandas" else missing
    with pytest.raises(InvalidInputError, match=r"y contains (None|NaN|<NA>) at row 1; every row must have a label"):
        ts.AROW().fit(np.eye(3), kind(["ham", missing, "spam"]))


def test_names_of_scikit_learn_are_translated():
    with pytest.raises(InvalidParameterError, match="got 'log_loss'; scikit-learn's 'log_loss' is 'logistic' here"):
        ts.FOBOS(loss="log_loss").fit(np.eye(2), [0, 1])
    with pytest.raises(InvalidParameterError, match=r"got 'log_loss'$"):
        ts.AROW(diagonal="log_loss").fit(np.eye(2), [0, 1])


def test_frames_that_are_no_matrix():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    twice = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["a", "a"])
    with pytest.raises(InvalidInputError, match=r"X has two columns with the name 'a'\. Rename or drop one of them"):
        ts.AROW().fit(twice, [0, 1])
    lazy = pl.LazyFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]})
    assert np.array_equal(ts.AROW().fit(lazy, [0, 1]).coef_, ts.AROW().fit(lazy.collect(), [0, 1]).coef_)
    with pytest.raises(InvalidInputError, match=r"y must be one column of labels, got a frame of 2 columns"):
        ts.AROW().fit(lazy.collect(), lazy)


@pytest.mark.parametrize("make", [ts.AROW, ts.SCW])
def test_without_probabilities_the_error_says_what_to_pass(make):
    model = make().fit(X, Y)
    name = make.__name__
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match=rf"{name} has no attribute 'predict_proba'.*{name}\(calibrate=True\)"):
        model.predict_proba(X)
    assert hasattr(make(calibrate=True), "predict_proba")
    assert make(calibrate=True).fit(X, Y).predict_proba(X).shape == (4, 2)
    assert callable(make.predict_proba)
