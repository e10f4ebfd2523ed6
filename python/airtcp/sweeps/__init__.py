"""Sweeps: many runs of a scenario with varied parameters.

`definition` is what a sweep file says, `planning` turns it into runs, `measures` says what is taken from each, `store`
keeps what is finished, `task` is one run, `running` carries out plans, `results` has the tables.
"""
