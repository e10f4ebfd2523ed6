"""Sweeps: many runs of a scenario with varied parameters.

`definition` reads a sweep, `planning` turns it into runs, and `measures` defines the values taken from each. `task` is
one run, `running` carries out plans, `store` keeps finished runs, and `results` has the tables.
"""
