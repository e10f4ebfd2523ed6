"""The larger commands, one file each. Each imports heavy modules only when it runs."""
