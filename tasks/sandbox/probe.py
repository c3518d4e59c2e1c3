"""What a new service asks its first jail: whether each protection is really there.

Run by the jail's own interpreter; every value must be true.
"""


def _probe(own: str) -> str:
    return f"""
import os, socket

def refused(action, *arguments):
    try:
        action(*arguments)
    except OSError:
        return True
    return False

def probe():
    status = dict(line.split(":", 1) for line in open("/proc/self/status")) if os.path.exists("/proc/self") else {{}}
    host = {{"root", "home", "usr", "var", "etc", "sys", "run", "mnt", "srv", "boot", "media"}}
    known = {{"HOME", "LANG", "LD_LIBRARY_PATH", "LD_BIND_NOW", "PWD", "PYTHONHASHSEED"}}
    return {{
        "first process": os.getppid() == 1,
        "system call filter": refused(os.chroot, "/tmp") and refused(os.memfd_create, "x"),
        "no network": refused(socket.socket, socket.AF_INET, socket.SOCK_DGRAM),
        {own}
    }}
"""


JAIL = _probe("""
        "user id": os.getuid() == 1000,
        "read-only root": refused(os.mkdir, "/x") and refused(open, "/dev/x", "w"),
        "no host files": not host & set(os.listdir("/")) and not os.listdir("/proc"),
        "environment": known >= set(os.environ),
""")

# An image brings its own files and variables.
CONTAINER = _probe("""
        "user id": os.getuid() != 0,
        "read-only root": refused(os.mkdir, "/x") and refused(open, "/usr/x", "w"),
        "no new privileges": status.get("NoNewPrivs", "").strip() == "1",
        "no capabilities": int(status.get("CapBnd", "1"), 16) == 0,
        "only loopback": not set(os.listdir("/sys/class/net")) - {"lo"},
        "environment": not [name for name in os.environ if "GRISTMILL" in name or "SECRET" in name],
""")
