"""Stage verify: judges trajectories against their tasks and writes verdicts that nobody can forge."""
