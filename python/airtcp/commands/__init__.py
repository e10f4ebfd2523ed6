"""The larger commands, a file each. What they need is imported when they run."""
