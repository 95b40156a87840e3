"""
Thirty words that tell two libraries apart
==========================================

Texts that are on every machine that runs this: the docstrings of NumPy and of scikit-learn. A model learns to tell
which library a docstring is from, and is then thinned until a person can read it.
"""

# %%
# The texts
# ---------
#
# Documented functions and classes of both, without the names of the libraries themselves, and in a random order.

import inspect
import pkgutil
import re
from importlib import import_module

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.feature_extraction.text import CountVectorizer

import thinstream as ts


def docstrings(*modules):
    """Docstrings of what modules offer, each once."""
    found = {inspect.getdoc(value) or "" for module in modules for value in vars(module).values() if callable(value)}
    return sorted(re.sub(r"numpy|np\.|scikit-learn|sklearn|ndarray", " ", text) for text in found if len(text) > 300)


skipped = ("experimental", "externals", "conftest", "tests")
parts = [f"sklearn.{part.name}" for part in pkgutil.iter_modules(sklearn.__path__) if part.name[0] != "_"]
theirs = docstrings(*(import_module(part) for part in parts if part.partition(".")[2] not in skipped))
numpys = docstrings(np, np.linalg, np.fft, np.ma, np.random, np.char)
texts, y = np.array(theirs + numpys), np.repeat(["scikit-learn", "NumPy"], [len(theirs), len(numpys)])
order = np.random.default_rng(0).permutation(len(texts))
texts, y = texts[order], y[order]
print(f"{len(theirs)} docstrings of scikit-learn, {len(numpys)} of NumPy")

# %%
# Learn, then thin
# ----------------
#
# The words are counted by scikit-learn. AROW knows how much each word has been seen, so `thin` knows which weights
# matter.

words = CountVectorizer(binary=True, token_pattern=r"[a-z]{3,}", lowercase=True)
X, cut = words.fit_transform(texts).astype(np.float32), 2 * len(y) // 3
model = ts.AROW(normalize="l2").fit(X[:cut], y[:cut])
sizes = [10, 20, 30, 50, 100, 300, 1000, 3000]
errors = [100 * (1 - model.thin(size, X[:cut], y[:cut]).score(X[cut:], y[cut:])) for size in sizes]
small = model.thin(30, X[:cut], y[:cut])
everything, thirty = (1 - each.score(X[cut:], y[cut:]) for each in (model, small))
print(f"all {model.nnz_} words: {everything:.1%} wrong; 30 words: {thirty:.1%}")

# %%
# The thin model, in full
# -----------------------
#
# Positive weights speak for scikit-learn, negative ones for NumPy.

weights, names = small.coef_.ravel(), words.get_feature_names_out()
kept = sorted(np.flatnonzero(weights), key=lambda j: weights[j])
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 5.6), layout="constrained", width_ratios=[3, 2])
left.barh(names[kept], weights[kept], color=np.where(weights[kept] > 0, "tab:orange", "tab:blue"))
left.set(title="30 words", xlabel="NumPy  ←  weight  →  scikit-learn")
left.tick_params(axis="y", labelsize=8)
right.plot(sizes, errors, marker="o")
right.axhline(100 * (1 - model.score(X[cut:], y[cut:])), color="grey", ls=":", label=f"all {model.nnz_} words")
right.set(xscale="log", xlabel="words", ylabel="error on other docstrings, %", ylim=(0, None))
right.legend()
plt.show()
