"""What bounds a jail: memory and processes in sum, resource limits per process, the system call filter."""
