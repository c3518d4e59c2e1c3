"""The commands, grouped by what a user is doing; each imports heavy parts only when it runs."""
