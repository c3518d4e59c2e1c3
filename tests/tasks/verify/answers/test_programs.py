"""stdin_stdout in languages other than Python."""

import json
import shutil
from typing import Any

import pytest

from schemas.errors import RecordError
from schemas.rows import Verdict
from schemas.task import Task, VerifierSpec
from tasks.context import Context
from tasks.verify.answers import programs
from tasks.verify.proof import prove
from tasks.verify.verifier.stdin_stdout import StdinStdout

TESTS = [{"stdin": "1 2\n", "expected": "3"}, {"stdin": "10 5\n", "expected": "15"}]
SH = "```sh\nread -r a b\necho $((a + b))\n```"
JS = (
    "Here it is:\n```js\nconst [a, b] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number);\n"
    "console.log(a + b);\n```"
)
AWK: dict[str, Any] = {"argv": ["awk", "-f", "{file}"], "tools": ["awk"], "file": "main.awk", "tags": ["awk"]}


def task(spec: dict[str, Any], gold: str | None = None) -> Task:
    whole = json.dumps({"tests": TESTS, **spec})
    return Task(id="t", kind="x", prompt=(), verifier=VerifierSpec(use="stdin_stdout", spec_json=whole), gold=gold)


def judge(ctx: Context, spec: dict[str, Any], answer: str) -> tuple[Verdict, dict[str, Any]]:
    found = StdinStdout(timeout_s=5).score(task(spec), answer, ctx)
    return found, json.loads(found.evidence_json)


@pytest.mark.parametrize(
    ("spec", "right", "wrong"),
    [
        ({"language": "sh"}, SH, "```sh\necho 3\n```"),
        ({"language": "bash"}, SH.replace("sh\n", "bash\n", 1), "```bash\necho 3; exit 1\n```"),
        ({"language": "javascript"}, JS, "```js\nconsole.log(3)\n```"),
        ({"command": AWK}, "```awk\n{ print $1 + $2 }\n```", "```awk\n{ print $1 }\n```"),
    ],
    ids=["sh", "bash", "javascript", "awk"],
)
def test_each_language_is_judged_and_proves_itself(bare: Context, spec: dict[str, Any], right: str, wrong: str) -> None:
    if spec.get("language") == "javascript" and shutil.which("node", path="/usr/bin:/bin:/usr/local/bin") is None:
        pytest.skip("no node on this machine")
    found, evidence = judge(bare, spec, right)
    assert (found.kind.value, found.reward) == ("pass", 1.0), evidence
    assert "/tools-" in evidence["sandbox"] and evidence["program"]
    found, evidence = judge(bare, spec, wrong)
    assert (found.kind.value, found.reward) == ("fail", 0.0)
    assert prove(task(spec, gold=right), bare).ok


def test_a_missing_interpreter_is_no_reward(bare: Context) -> None:
    spec = {"command": {"argv": ["no-such-lang", "{file}"], "tools": ["no-such-lang"]}}
    found, evidence = judge(bare, spec, "```\nx\n```")
    assert (found.kind.value, found.reward, evidence["reason"]) == ("infrastructure", None, "no_interpreter")
    assert "no-such-lang" in evidence["detail"]


@pytest.mark.parametrize(
    "spec",
    [
        {"language": "cobol"},
        {"command": {"argv": [], "tools": ["sh"]}},
        {"command": {"argv": ["/bin/sh"], "tools": ["/bin/sh"]}},
        {"command": {"argv": ["sh"], "tools": ["sh"], "file": "../../x"}},
    ],
)
def test_a_command_that_could_never_run_is_the_tasks_fault(bare: Context, spec: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match="bad_spec"):
        judge(bare, spec, SH)


def test_which_part_of_an_answer_is_the_program() -> None:
    text = "```python\nprint(1)\n```\nand\n```sh\necho 1\n```\nor\n```\necho 2\n```\n"
    assert programs.source(text, ("sh",)) == "echo 2\n"
    assert programs.source(text, ("python",)) == "echo 2\n"
    assert programs.source("```rust\nfn main() {}\n```", ("sh",)) is None
    assert programs.source("```rust\nfn main() {}\n```", ()) == "fn main() {}\n"
    assert programs.source("#!/bin/sh\necho 1\n", ("sh",)) == "#!/bin/sh\necho 1\n"
    assert programs.source("echo 1", ("sh",)) is None
