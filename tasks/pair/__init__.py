"""Makes rows of another grain, such as preferences, from sets of trajectories."""
