"""Plays TextWorld games; runs in a helper process, see worker.py.

A game is made from its options and seed (the same ones give the same game) and kept compiled in a folder of this user.
The interpreter of the game writes files for some commands (save, script) and its C code dislikes odd bytes: only plain
commands get there.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

_PLAIN = re.compile(r"[A-Za-z0-9 ',.-]{1,120}")
# Words of the interpreter, not of the game.
_META = frozenset(
    {"save", "restore", "restart", "quit", "q", "undo", "script", "unscript", "transcript", "noscript", "record",
     "recording", "replay", "verify", "notify", "superbrief", "brief", "verbose", "version", "oops", "again", "g"}
)  # fmt: skip


def play(request: dict[str, Any]) -> dict[str, Any]:
    """{"won", "lost", "score", "max_score", "moves", "refused"} after the commands; refused: the first that is none.

    request: options (see `made`), commands. Stops when the game is over.
    """
    import textworld

    file, _ = made(request["options"])
    infos = textworld.EnvInfos(won=True, lost=True, max_score=True)
    env = textworld.start(str(file), infos)
    try:
        state = env.reset()
        moves, refused = 0, None
        for command in request["commands"]:
            if not plain(command):
                refused = command[:100]
                break
            state, _, over = env.step(command.strip())
            moves += 1
            if over:
                break
        return {
            "won": bool(state.won),
            "lost": bool(state.lost),
            "score": int(state.score or 0),
            "max_score": int(state.max_score or 0),
            "moves": moves,
            "refused": refused,
        }
    finally:
        env.close()


def walkthrough(options: dict[str, Any]) -> list[str]:
    """The commands that win the game."""
    commands: list[str] = made(options)[1]["metadata"]["walkthrough"]
    return commands


def plain(command: str) -> bool:
    """Whether it is a command of the game, and none of its interpreter."""
    words = command.lower().split()
    return (
        _PLAIN.fullmatch(command) is not None
        and bool(words)
        and not (frozenset(re.split(r"\W+", command.lower())) & _META)
    )


def made(options: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The compiled game and its description; options: seed, rooms, objects, quest_length."""
    import textworld

    key = hashlib.sha256(json.dumps([textworld.__version__, options], sort_keys=True).encode()).hexdigest()[:24]
    folder = _folder()
    target = folder / key
    if not target.is_dir():
        building = Path(tempfile.mkdtemp(dir=folder))
        try:
            wanted = textworld.GameOptions()
            wanted.seeds = int(options["seed"])
            wanted.nb_rooms, wanted.nb_objects = int(options.get("rooms", 1)), int(options.get("objects", 1))
            wanted.quest_length = int(options.get("quest_length", 1))
            wanted.path, wanted.force_recompile = str(building / "game.z8"), True
            textworld.make(wanted)
            # Another process may have been first.
            with contextlib.suppress(OSError):
                building.rename(target)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return target / "game.z8", json.loads((target / "game.json").read_text(encoding="utf-8"))


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"gristmill-games-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder
