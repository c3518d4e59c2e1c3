"""Escapes tried from a shell and from JavaScript: each program must print "refused" as its last word, or end as named.

A line that starts with ESCAPED says what was reached.
"""

# ruff: noqa: E501

from typing import NamedTuple


class ProgramEscape(NamedTuple):
    """A name, the language, the program, and the kinds (besides a printed "refused") that count as refused."""

    name: str
    language: str
    code: str
    ends: tuple[str, ...] = ()


def _sh(name: str, code: str, *ends: str) -> ProgramEscape:
    return ProgramEscape(f"sh_{name}", "sh", code, ends)


def _node(name: str, body: str, *ends: str) -> ProgramEscape:
    return ProgramEscape(
        f"node_{name}",
        "javascript",
        "const fs = require('fs'), net = require('net'), cp = require('child_process');\n"
        "function mustFail(what, action) { try { const got = action(); console.log('ESCAPED', what, String(got).slice(0, 80)); process.exit(0); } catch (error) {} }\n"
        + body,
        ends,
    )


PROGRAMS = [
    _sh(
        "read_host",
        'for f in /etc/passwd /etc/shadow /root /home /usr /var /sys /run /proc/1/environ /proc/self/mountinfo; do\n  if [ -d $f ]; then n=$(ls -A $f 2>/dev/null | head -1); [ -n "$n" ] && echo ESCAPED $f $n\n  elif cat $f 2>/dev/null; then echo ESCAPED $f; fi\ndone\necho refused',
    ),
    _sh(
        "write_outside",
        "for f in /x /opt/x /opt/bin/x /opt/bin/sh /opt/python/runner.pyc /dev/x /bin/x; do\n  if ( : >> $f ) 2>/dev/null; then echo ESCAPED $f; fi\ndone\necho refused",
    ),
    _sh("environment", 'case "$(env)" in *GRISTMILL*|*HOST*) echo ESCAPED;; esac\necho refused'),
    _sh(
        "descriptors",
        "for n in 3 4 5 6 7 8 9; do ( echo forged >&$n ) 2>/dev/null && echo ESCAPED $n; done\necho refused",
    ),
    _sh("kill_everybody", "kill -9 1 2>/dev/null; kill -15 1 2>/dev/null; kill -STOP 1 2>/dev/null; echo refused"),
    _sh("network", "( exec 5<>/dev/tcp/127.0.0.1/22 ) 2>/dev/null && echo ESCAPED\necho refused"),
    _sh(
        "only_named_tools",
        "for t in python3 gcc mount su sudo nsenter ip curl docker; do command -v $t >/dev/null && echo ESCAPED $t; done\necho refused",
    ),
    _sh(
        "limits",
        "ulimit -v unlimited 2>/dev/null && echo ESCAPED memory\nulimit -u 100000 2>/dev/null && echo ESCAPED processes\nulimit -t unlimited 2>/dev/null && echo ESCAPED cpu\necho refused",
    ),
    _sh("forged_report", 'printf \'\\000\\000\\000\\014J[-2,"ok","","",0]\'; exit 3', "error"),
    _sh("burn_cpu", "while :; do :; done", "cpu"),
    _sh("sleep_forever", "trap '' TERM INT HUP; sleep 3600", "timeout"),
    _sh("fork_bomb", "f() { f | f & }; f; wait; echo refused", "error", "cpu", "timeout", "memory"),
    _sh(
        "fill_the_disk",
        "i=0; while [ $i -lt 400 ]; do head -c 1000000 /dev/zero > f$i 2>/dev/null || break; i=$((i+1)); done\n[ $i -lt 70 ] && echo refused || echo ESCAPED $i",
        "memory",
        "error",
    ),
    _sh("flood_output", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", "error"),
    _sh("daemon", "( ( trap '' HUP; sleep 600 ) & ) ; echo refused"),
    _node(
        "read_host",
        "for (const path of ['/etc/passwd', '/etc/shadow', '/proc/1/environ', '/proc/self/mountinfo', '/sys/kernel', '/usr/lib', '/root', '/home']) mustFail(path, () => fs.statSync(path).isDirectory() ? fs.readdirSync(path) : fs.readFileSync(path));\nconsole.log('refused');",
    ),
    _node(
        "write_outside",
        "for (const path of ['/x', '/opt/bin/node', '/opt/python/runner.pyc', '/dev/x']) mustFail(path, () => fs.openSync(path, 'a'));\nconsole.log('refused');",
    ),
    _node(
        "descriptors",
        'for (let fd = 3; fd < 64; fd++) { try { if (fs.fstatSync(fd).isFIFO()) { fs.writeSync(fd, \'\\0\\0\\0\\x14J[-2,"ok","","",0]\'); } } catch (error) {} }\nprocess.exit(3);',
        "error",
    ),
    _node(
        "network",
        "const tried = [['127.0.0.1', 22], ['1.1.1.1', 53]];\nlet left = tried.length;\nfor (const [host, port] of tried) { const plug = net.connect(port, host, () => { console.log('ESCAPED', host); process.exit(0); }); plug.on('error', () => { if (--left === 0) console.log('refused'); }); }",
    ),
    _node(
        "serve",
        "net.createServer().on('error', () => console.log('refused')).listen(0, '127.0.0.1', () => { console.log('ESCAPED'); process.exit(0); });",
    ),
    _node(
        "other_programs",
        "for (const name of ['/bin/sh', '/usr/bin/id', '/opt/python/bin/python3x', 'mount']) { const ran = cp.spawnSync(name, ['-c', 'echo out']); if (!ran.error) console.log('ESCAPED', name); }\nconsole.log('refused');",
    ),
    _node(
        "become_root",
        "mustFail('setuid', () => process.setuid(0)); mustFail('setgid', () => process.setgid(0)); mustFail('nice', () => require('os').setPriority(-10));\nconsole.log('refused');",
    ),
    _node(
        "native_code",
        "fs.writeFileSync('a.node', Buffer.from('7f454c46', 'hex')); mustFail('dlopen', () => process.dlopen({exports: {}}, process.cwd() + '/a.node'));\nconsole.log('refused');",
    ),
    _node(
        "eat_memory", "const kept = []; while (true) kept.push(new Array(100000).fill(kept.length));", "memory", "error"
    ),
    _node(
        "eat_buffers",
        "const kept = []; for (let n = 0; n < 64; n++) kept.push(Buffer.alloc(32 << 20, 1)); console.log('ESCAPED', kept.length);",
        "memory",
        "error",
    ),
    _node(
        "shared_memory",
        "const kept = []; for (let n = 0; n < 64; n++) { const view = new Uint8Array(new SharedArrayBuffer(32 << 20)); view.fill(1); kept.push(view); } console.log('ESCAPED', kept.length);",
        "memory",
        "error",
    ),
    _node("burn_cpu", "while (true) {}", "cpu"),
    _node("sleep_forever", "setInterval(() => {}, 1000);", "timeout"),
    _node("flood_output", "while (true) fs.writeSync(1, 'x'.repeat(65536));", "error"),
    _node("exit_handlers", "process.on('exit', () => { for (;;) {} });", "cpu"),
]
