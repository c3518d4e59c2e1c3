"""Verifiers that ask a model: the bases they share, their prompts, and live probes of what an agent ran."""
