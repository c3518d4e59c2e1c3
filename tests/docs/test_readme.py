"""What the README says is run: its recipe is parsed, its plug-in decides, its commands are executed in their order."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from schemas.ids import content_id
from schemas.trajectory import Step, Trajectory, text_part
from schemas.vocabulary import Kind, Source
from tasks.operator import Item
from tasks.recipe import parse_recipe

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# Runs until it is stopped (tests/flows/test_schedule.py runs it), or needs a server of the reader's own.
ELSEWHERE = ("gristmill serve", "--lake")


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def commands() -> list[str]:
    lines = [line.split("  #")[0].strip() for block in blocks("") for line in block.splitlines()]
    return [line for line in lines if line.startswith("gristmill ") and not any(mark in line for mark in ELSEWHERE)]


def test_its_recipe_is_valid() -> None:
    recipe, _ = blocks("toml")
    assert parse_recipe(tomllib.loads(recipe)).name == "arithmetic"


def test_its_entry_point_is_of_a_kind_that_is_looked_for() -> None:
    _, project = blocks("toml")
    ((group, points),) = tomllib.loads(project)["project"]["entry-points"].items()
    assert Kind(group.removeprefix("gristmill.")) is Kind.SELECTOR
    assert points == {"short_enough": "my_package.short_enough:ShortEnough"}


def test_its_plugin_decides(tmp_path: Path) -> None:
    (text,) = blocks("python")
    file = tmp_path / "short_enough.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("short_enough", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    step = Step(source=Source.AGENT, content=text_part("x"))
    long = Trajectory(id=content_id("t"), steps=(step, step, step))
    item = Item(id=long.id, ref=long.id)
    assert module.ShortEnough(most=3).judge(long, (), item, None).keep
    choice = module.ShortEnough(most=2).judge(long, (), item, None)
    assert (choice.keep, choice.reason, choice.evidence) == (False, "too_many_steps", {"steps": 3})


def test_the_pages_that_it_names_exist() -> None:
    named = re.findall(r"\]\(([^)#]+)\)", README)
    assert named
    assert [page for page in named if not (ROOT / page).exists()] == []


def test_every_command_exists() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gristmill", "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    known = set(re.findall(r"^  ([a-z]+) ", done.stdout, re.MULTILINE))
    used = {shlex.split(line)[1] for line in commands()}
    assert len(used) > 8
    assert used <= known


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_its_commands_run_in_their_order(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}\n',
        encoding="utf-8",
    )
    ran = commands()
    assert {"validate", "preview", "run", "funnel", "query", "import", "export", "train", "deploy"} <= {
        shlex.split(line)[1] for line in ran
    }
    for line in ran:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert (tmp_path / "shards" / "chat" / "manifest.json").is_file()
