"""The curate stage: selectors keep or drop trajectories, each drop with a reason and its evidence."""
