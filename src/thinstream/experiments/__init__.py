"""The papers' tables and figures, made anew: ``thinstream reproduce``.

`experiment` says what an experiment is, `running` runs one cell by cell (and goes on where it was stopped), `writing`
makes its page of what `presenting` has, `data` reads the sets. Each other module is one table or figure of a paper, or
what those of a paper share, and `catalogue` lists them.
"""
