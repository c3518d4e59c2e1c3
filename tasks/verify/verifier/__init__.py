"""The verifiers, one file each; a file's name is the plug-in's id."""
