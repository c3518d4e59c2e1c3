"""Foreign logs in: files are split into records, decoded strictly, and read into trajectories."""
