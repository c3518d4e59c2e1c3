"""Makes better trajectories from trajectories; the parent is always kept."""
