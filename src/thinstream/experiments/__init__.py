"""The papers' tables and figures, made anew: ``thinstream reproduce``.

`experiment` says what an experiment is, `running` runs one cell by cell (and goes on where it was stopped), `writing`
makes its page, `published` has the papers' numbers, `data` reads the sets. Each other module is one table or figure
of a paper, and `catalogue` lists them. `rows` and `panels` are what their tables and pictures share.
"""
