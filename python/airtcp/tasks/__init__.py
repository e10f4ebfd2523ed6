"""A task: one run of a sweep, and the values that are measured in it."""
