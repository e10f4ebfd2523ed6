"""Real captures: what happened to the TCP connections in them, and what a remedy would have changed."""
