"""What gets into a jail: the interpreter, languages and system binaries, packages and environments."""
