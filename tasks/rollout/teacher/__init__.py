"""Teachers: who answers. A hosted endpoint, a model in this process, or vLLM in a child process."""
