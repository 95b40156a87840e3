"""thinstream beside Vowpal Wabbit, River, scikit-learn, liblinear and LIBSOL on real sets.

Run it with ``python -m benchmarks.versus``; the caveats are at the top of the page it writes.
"""
