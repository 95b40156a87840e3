"""
Two workers on Ray
==================

The same model learned by one process and by two workers of Ray, each with half of the rows, merged now and then by
the rule of the algorithm. This story is not run when the site is built, as it starts a cluster of its own; the
picture is of a run on two cores. It needs `pip install '.[ray,plot]'`.

.. image:: /_static/ray_two_workers.png
   :alt: error on new rows against rows learned, for one process and for two workers

"""

# %%
# Rows in files
# -------------

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import dump_svmlight_file

import thinstream as ts
from thinstream.datasets import zipf_text

try:
    import ray
except ImportError:
    sys.exit("this story needs Ray: pip install '.[ray,plot]'")

X, y = zipf_text(44_000, 20_000, noise=0.05)
folder = Path(tempfile.mkdtemp())
for part in range(4):
    rows = slice(10_000 * part, 10_000 * (part + 1))
    dump_svmlight_file(X[rows], y[rows], str(folder / f"part-{part}.svm"), zero_based=False)

# %%
# One process, two workers
# ------------------------
#
# `distributed.train` takes files, Ray Datasets or Spark DataFrames, and returns an ordinary fitted estimator.

test, sizes, errors = slice(40_000, None), [1, 2, 3, 4], {"one process": [], "two workers on Ray": []}
for parts in sizes:
    files = [str(folder / f"part-{part}.svm") for part in range(parts)]
    alone = ts.AROW().fit_stream(ts.open_stream(files))
    merged = ts.distributed.train(files, ts.AROW(), engine="ray", workers=2)
    for name, model in zip(errors, (alone, merged), strict=True):
        errors[name].append(100 * (1 - model.score(X[test, : model.n_features_in_], y[test])))
ray.shutdown()

# %%
# What merging costs
# ------------------

figure, place = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for name, each in errors.items():
    place.plot([10_000 * size for size in sizes], each, marker="o", label=name)
place.set(xlabel="rows learned", ylabel="error on 4,000 new rows, %")
place.legend()
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
plt.show()

# sphinx_gallery_thumbnail_path = '_static/ray_two_workers.png'
