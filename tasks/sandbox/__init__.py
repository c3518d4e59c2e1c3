"""Runs untrusted code in fresh, hardened jails and hands back plain data."""
