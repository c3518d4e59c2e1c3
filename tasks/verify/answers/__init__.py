"""What a policy wrote: the answer found in it, read, and compared."""
