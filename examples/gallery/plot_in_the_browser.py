"""
A model in this page
====================

Which library has a function of that name? A small model, learned from the names in NumPy, matplotlib and
scikit-learn, is exported as JavaScript and runs in the box at the end of this page: nothing is sent anywhere.
"""

# %%
# Names
# -----
#
# Public names of three libraries, each in one of them only, in a random order; every fifth is held out.

import base64
import json
import pkgutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from matplotlib.axes import Axes

import thinstream as ts

parts = [f"sklearn.{part.name}" for part in pkgutil.iter_modules(sklearn.__path__) if part.name[0] != "_"]
skipped = ("sklearn.experimental", "sklearn.externals", "sklearn.conftest", "sklearn.tests")
libraries = {
    "NumPy": {*dir(np), *dir(np.linalg), *dir(np.random)},
    "matplotlib": {*dir(plt), *dir(Axes)},
    "scikit-learn": {
        name for part in parts if part not in skipped for name in getattr(import_module(part), "__all__", ())
    },
}
rows = [
    {"label": library, "name": name.replace("_", " ")}
    for library, names in libraries.items()
    for name in sorted(names)
    if name[0] != "_" and sum(name in others for others in libraries.values()) == 1
]
rows = [rows[k] for k in np.random.default_rng(0).permutation(len(rows))]
folder = Path(tempfile.mkdtemp())
for part, chosen in {"train": [row for k, row in enumerate(rows) if k % 5], "test": rows[::5]}.items():
    (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chosen))

# %%
# Letters in a row
# ----------------
#
# Two to four letters in a row are features, hashed while the file is read. The most important 3,000 weights stay.

stream = ts.open_stream(folder / "train.jsonl", text=["name"], chars="2-4", bits=18)
model = ts.AROW(normalize="l2").fit_stream(stream)
small = model.thin(3000)
held = rows[::5]
scores = small.decision_function([{"name": row["name"]} for row in held])
right = np.mean([small.classes_[k] == row["label"] for k, row in zip(scores.argmax(axis=1), held, strict=True)])
print(f"{len(rows)} names; {right:.0%} of {len(held)} held out are put into their library")

# %%
# Some that were held out
# -----------------------

some = held[:18]
figure, place = plt.subplots(figsize=(7, 5), layout="constrained")
largest = np.abs(scores[:18]).max()
shown = place.imshow(scores[:18], cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
place.set_xticks(range(3), small.classes_)
place.set_yticks(range(18), [row["name"] for row in some])
for k, row in enumerate(some):
    place.plot(list(small.classes_).index(row["label"]), k, marker="o", color="black", markersize=5)
place.set_title("scores; a dot is the library the name is from")
figure.colorbar(shown)
plt.show()

# %%
# Try it
# ------
#
# `thinstream export` writes an ES module without dependencies, which takes names apart and hashes them as the
# stream above did.

small.save(folder / "names.ts", weights_only=True)
subprocess.run([sys.executable, "-m", "thinstream", "export", folder / "names.ts", folder / "names.mjs"], check=True)
module = (folder / "names.mjs").read_bytes()
print(f"{len(module) / 1000:.0f} kB of JavaScript")


class Page:
    """A box that scores what is typed."""

    def _repr_html_(self):
        return f"""
<p><label for="asked">A name, as <code>logspace</code> or <code>set_xlabel</code>:</label>
<input id="asked" value="RidgeClassifier" autocomplete="off"> <strong id="answer"></strong></p>
<script type="module">
import {{ predict, score, classes }} from "data:text/javascript;base64,{base64.b64encode(module).decode()}";
const asked = document.getElementById("asked"), answer = document.getElementById("answer");
const say = () => {{
  const row = {{ name: asked.value.replaceAll("_", " ") }}, found = score(row);
  const told = classes.map((each, k) => each + " " + found[k].toFixed(2));
  answer.textContent = predict(row) + " (" + told.join(", ") + ")";
}};
asked.addEventListener("input", say);
say();
</script>"""


Page()
