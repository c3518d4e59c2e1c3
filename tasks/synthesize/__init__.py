"""Makes tasks: a prompt, how it is checked, a gold solution, and the proof that the check works."""
