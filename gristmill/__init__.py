"""Gristmill: the command line and the façade that outside plug-ins import."""
