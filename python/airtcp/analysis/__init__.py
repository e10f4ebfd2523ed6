"""Analysis of real captures: the behaviour of their TCP connections, and the effect of remedies."""
