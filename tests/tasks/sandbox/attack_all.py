"""Runs the tables of attacks in a process of its own, for a user who is not root; prints one JSON object.

python attack_all.py ESCAPES.py FORGERIES.py ESCAPES_PROGRAMS.py
"""

import json
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from schemas.task import Task, VerifierSpec
from tasks.sandbox.programs.languages import language
from tasks.sandbox.programs.tools import find
from tasks.sandbox.results import Call, Limits
from tasks.sandbox.sandbox import Sandbox
from tasks.verify.verifier.unit_tests import UnitTests

_NEEDS = {"sh": "sh", "javascript": "node"}


def main() -> None:
    """Attacks a service as it starts for this user."""
    escapes = runpy.run_path(sys.argv[1])["ESCAPES"]
    table = runpy.run_path(sys.argv[2])
    programs = [each for each in runpy.run_path(sys.argv[3])["PROGRAMS"] if find(_NEEDS[each.language])]
    box = Sandbox.start(2)
    spec = {
        "entry": "f",
        "tests": [{"args": [3], "expected": table["SECRET"][0]}, {"args": [[1, 2]], "expected": table["SECRET"][1]}],
        "timeout_s": 3,
        "cpu_s": 2,
        "memory_mb": 256,
    }
    task = Task(id="t", kind="code", prompt=(), verifier=VerifierSpec(use="unit_tests", spec_json=json.dumps(spec)))
    ctx = SimpleNamespace(sandbox=box)

    def escape(each):
        limits = Limits(wall_s=each.wall_s, cpu_s=1, memory_mb=256, processes=16)
        found = box.call_functions(each.code, [Call(entry="attack")], limits).results[0]
        return [found.kind.value, str(found.value), found.detail]

    def program(each):
        limits = Limits(wall_s=2.0 if each.ends == ("timeout",) else 20.0, cpu_s=1, memory_mb=256, processes=24)
        ran = box.run_program(each.code, language(each.language), limits=limits)
        return [ran.kind.value, ran.stdout[-2000:], ran.detail]

    def forge(each):
        found = UnitTests().judge(task, f"```python\n{each.code}\n```", ctx)
        return [found.kind.value, found.reward, found.reason]

    with ThreadPoolExecutor(2) as threads:
        report = {
            "mode": box.mode,
            "escapes": dict(zip([each.name for each in escapes], threads.map(escape, escapes), strict=True)),
            "programs": dict(zip([each.name for each in programs], threads.map(program, programs), strict=True)),
            "forgeries": dict(
                zip([each.name for each in table["FORGERIES"]], threads.map(forge, table["FORGERIES"]), strict=True)
            ),
        }
    box.close()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
