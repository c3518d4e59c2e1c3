"""Programs in languages other than Python: which part of an answer they are, and answers that must not pass."""

import re
from collections.abc import Mapping, Sequence

_FENCE = re.compile(
    r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+\1[ \t]*+$|\Z)", re.MULTILINE | re.DOTALL
)
_EXIT = {"sh": "exit 0", "bash": "exit 0", "javascript": "process.exit(0)"}
_ECHO = {"sh": "cat", "bash": "cat", "javascript": "process.stdout.write(require('fs').readFileSync(0))"}
_SAY = {"sh": "echo PASSED", "bash": "echo PASSED", "javascript": "console.log('PASSED')"}
_SAME = {"shell": "sh", "js": "javascript", "node": "javascript"}
_PYTHON = {
    "exit": "import os\nos._exit(0)",
    "echo": "import sys\nprint(sys.stdin.read())",
    "passed": "print('PASSED')",
    "stub": "pass",
}


def source(text: str, tags: Sequence[str]) -> str | None:
    """The last block fenced with one of the tags (any tag where there are none) or with none.

    A text without blocks counts only when it is a script that says so (#!). None when there is no program.
    """
    known = frozenset(tags)
    blocks = [found[3] for found in _FENCE.finditer(text) if not known or found[2].lower() in ("", *known)]
    if blocks:
        return blocks[-1]
    return text if text.startswith("#!") else None


def cheats(language: str) -> Mapping[str, str]:
    """Nothing, an early exit, the input itself and a claim; for an unknown language only what is no program."""
    name = _SAME.get(language, language)
    if name == "python":
        bodies = _PYTHON
    elif name in _EXIT:
        bodies = {"exit": _EXIT[name], "echo": _ECHO[name], "passed": _SAY[name]}
    else:
        bodies = {"blank": "", "passed": "PASSED"}
    tag = name if name in ("python", *_EXIT) else ""
    return {"empty": "", **{key: f"```{tag}\n{body}\n```" for key, body in bodies.items()}}
