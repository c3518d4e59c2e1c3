"""The rollout stage: tasks × teachers × samples become trajectories, complete with calls, usage and tokens."""
