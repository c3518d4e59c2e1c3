"""Engines that sample in this machine: SmolLM2 in process, vLLM in a child process."""
