"""Puts weights, rewards and process labels beside trajectories, which are never rewritten."""
