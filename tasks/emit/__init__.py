"""Emit: a pinned set of trajectories, task groups or pairs becomes shards, a manifest and a dataset card."""
