"""Helper processes that can be killed, and the scorers that run in them."""
