"""What a new service asks its first jail: whether each protection is really there."""

# Run by the jail's own interpreter; every value must be true.
PROBE = """
import os, socket

def refused(action, *arguments):
    try:
        action(*arguments)
    except OSError:
        return True
    return False

def probe():
    host = {"root", "home", "usr", "var", "etc", "sys", "run", "mnt", "srv", "boot", "media"}
    return {
        "user id": os.getuid() == 1000,
        "first process": os.getppid() == 1,
        "read-only root": refused(os.mkdir, "/x") and refused(open, "/dev/x", "w"),
        "no host files": not host & set(os.listdir("/")) and not os.listdir("/proc"),
        "system call filter": refused(os.chroot, "/tmp") and refused(os.memfd_create, "x"),
        "no network": refused(socket.socket, socket.AF_INET, socket.SOCK_DGRAM),
        "environment": {"HOME", "LANG", "LD_LIBRARY_PATH", "LD_BIND_NOW", "PWD", "PYTHONHASHSEED"} >= set(os.environ),
    }
"""
