"""Slots, lease, pool and proof behind the sandbox service."""

import os
import queue
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from schemas.errors import FaultError, Unavailable
from tasks.sandbox import bwrap, leases, probe
from tasks.sandbox.bounds import cgroup
from tasks.sandbox.container import Container
from tasks.sandbox.engine import Bubblewrap, Engine, Open
from tasks.sandbox.jail import Ended, Jail, Slot
from tasks.sandbox.pool import Pool
from tasks.sandbox.programs import interpreter
from tasks.sandbox.programs.folders import INSIDE as PACKAGES_INSIDE
from tasks.sandbox.programs.packages import Packages
from tasks.sandbox.programs.packages import prepare as prepare_packages
from tasks.sandbox.programs.tools import INSIDE as TOOLS_INSIDE
from tasks.sandbox.programs.tools import Tools
from tasks.sandbox.programs.tools import prepare as prepare_tools
from tasks.sandbox.results import Call, Limits, RunKind
from tasks.sandbox.shape import Needs, Shape
from tasks.sandbox.state import state_dir
from tasks.sandbox.wire.protocol import Place, calls_request
from tasks.sandbox.wire.reading import read_calls

_PATIENCE_S = 600.0


class Backend:
    """What stands behind a Sandbox: at most `turns` jails run at a time, and `warm` more wait."""

    def __init__(self, slots: list[Slot], engine: Engine, mode: str, lease: leases.Lease | None, warm: int = 0) -> None:
        self.engine, self.mode, self._lease = engine, mode, lease
        self.python, self.version = engine.python, engine.version
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        self._packages: dict[tuple[str, ...], Packages] = {}
        self._tools: dict[tuple[str, ...], Tools] = {}
        self._slots: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        for slot in slots:
            self._slots.put(slot)
        self._turns = threading.Semaphore(len(slots) - warm)
        self._pool = Pool(warm, engine.launch, self._slots)

    @classmethod
    def contained(cls, slots: int, *, watchdog: bool, warm: int = 0) -> "Backend":
        """The bubblewrap backend, proven by one run."""
        state = state_dir()
        engine = Bubblewrap(bwrap.find(state), interpreter.prepare(state))
        # A jail that waits has a slot of its own, so that no user id or cgroup is ever shared.
        count = slots + warm
        name = f"gristmill-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        names = [f"{name}-{number}" for number in range(count)]
        lease = leases.acquire(state, count, [name] if watchdog else names, engine.python.root)
        try:
            groups = [None if watchdog else cgroup.make(each) for each in names]
            if None in groups:
                for group in groups:
                    if group is not None:
                        group.remove()
                groups = [None] * count
            uids = lease.held.uids
            every = [Slot(number, uids[number] if uids else None, groups[number]) for number in range(count)]
            mode = "watchdog" if groups[0] is None else "cgroup"
            box = cls(every, engine, mode, lease, warm)
            box.prove(probe.JAIL)
        except BaseException:
            lease.release()
            raise
        return box

    @classmethod
    def containers(cls, engine: Container, slots: int, *, warm: int = 0) -> "Backend":
        """A container backend, proven by one run."""
        lease = leases.hold_containers(state_dir(), engine.path, engine.prefix)
        try:
            box = cls([Slot(number) for number in range(slots + warm)], engine, engine.mode, lease, warm)
            box.prove(probe.CONTAINER)
        except BaseException:
            lease.release()
            raise
        return box

    @classmethod
    def open(cls, slots: int) -> "Backend":
        """No jail at all: what the user asked for by the unsafe flag."""
        return cls([Slot(number) for number in range(slots)], Open(), "unsafe", None)

    @contextmanager
    def turn(self, patience_s: float | None = None) -> Iterator[None]:
        """The right to run one jail; waits for it. Unavailable when none came free in `patience_s`."""
        if os.getpid() != self._pid:
            raise FaultError("A sandbox cannot be used across a fork: start one in the new process.")
        if not self._turns.acquire(timeout=patience_s):
            raise Unavailable("sandbox", f"no jail came free within {patience_s} s")
        try:
            yield
        finally:
            self._turns.release()

    def packages(self, names: tuple[str, ...]) -> Packages | None:
        """The folder of packages, made once; None for no names."""
        if not names:
            return None
        with self._lock:
            if names not in self._packages:
                self._packages[names] = prepare_packages(state_dir(), names)
            return self._packages[names]

    def tools(self, names: tuple[str, ...]) -> Tools | None:
        """The folder of system binaries, made once; None for no names."""
        if not names:
            return None
        with self._lock:
            if names not in self._tools:
                self._tools[names] = prepare_tools(state_dir(), names)
            return self._tools[names]

    def shape(self, limits: Limits, needs: Needs) -> Shape:
        """The shape of a jail that has what is needed."""
        packages, tools = self.packages(needs.packages), self.tools(needs.tools)
        shape = Shape(
            disk_mb=limits.disk_mb,
            hash_seed=limits.hash_seed,
            packages=packages.root if packages else None,
            tools=tools.root if tools else None,
            loopback=needs.loopback,
        )
        return self.engine.fit(shape, limits)

    def place(self, slot: Slot, shape: Shape, needs: Needs) -> Place:
        """Where a runner works in a jail of this shape."""
        packages = PACKAGES_INSIDE if shape.packages else ""
        return Place(
            own_uid=slot.uid is not None,
            packages=packages,
            reserves=needs.reserves,
            counted=self.mode == Container.mode,
            filter=self.engine.inside(shape),
        )

    @contextmanager
    def _folder(self, slot: Slot, shape: Shape, needs: Needs) -> Iterator[Place]:
        """The folder that the runner works in: the jail's own /tmp, or without a jail one that is removed after."""
        if not self.engine.unsafe:
            yield self.place(slot, shape, needs)
        else:
            with tempfile.TemporaryDirectory(prefix="gristmill-unsafe-") as folder:
                yield Place(folder, contained=False, packages=str(shape.packages or ""))

    @contextmanager
    def held(self, shape: Shape, *, lasting: bool = False) -> Iterator[Jail]:
        """A jail of this shape, prepared ahead where one is ready; its slot is free again after.

        lasting: it must not end with the calling thread.
        """
        jail = self._pool.take(shape)
        slot = jail.slot if jail is not None else self._slots.get(timeout=_PATIENCE_S)
        try:
            yield jail or self._started(shape, slot, lasting=lasting)
        finally:
            self._slots.put(slot)

    def _started(self, shape: Shape, slot: Slot, *, lasting: bool) -> Jail:
        jail = self._pool.start(shape, slot) if lasting else None
        if jail is None:
            jail = Jail(slot, self.engine.launch(slot, shape))
            try:
                jail.start()
            except OSError as error:
                raise Unavailable("sandbox", f"A jail could not be started: {error}") from error
        return jail

    def programs(self, needs: Needs) -> str:
        """The folder of the system binaries as the programs see it."""
        tools = self.tools(needs.tools)
        return str(tools.root) if tools and self.engine.unsafe else TOOLS_INSIDE

    def bound(self, jail: Jail, limits: Limits) -> None:
        """Sets the limits of the jail's cgroup."""
        try:
            if jail.slot.group is not None:
                jail.slot.group.limit(limits)
        except OSError as error:
            raise Unavailable("sandbox", f"The limits of a cgroup could not be set: {error}") from error

    def run(
        self,
        request: Callable[[Place], bytes],
        limits: Limits,
        load_s: float,
        span_s: float,
        frame_limit: int,
        needs: Needs = Needs(),  # noqa: B008 - frozen
    ) -> Ended:
        """One jail. Once more when it could not even start: that is never the candidate's doing.

        request: makes the request, given where the runner works.
        """
        shape = self.shape(limits, needs)
        with self.turn():
            for _ in range(2):
                with self.held(shape) as jail, self._folder(jail.slot, shape, needs) as place:
                    self._pool.want(shape)
                    try:
                        self.bound(jail, limits)
                        jail.ask(request(place), limits, lambda loaded: span_s if loaded else load_s, frame_limit)
                    finally:
                        ended = jail.end()
                if ended.started:
                    break
            self.refuse_closed()
            return ended

    def refuse_closed(self) -> None:
        """Unavailable once it is closed: code that ran at that moment ended for no reason of its own."""
        if self._closed:
            raise Unavailable("sandbox", "it was closed while the code ran")

    def prove(self, code: str) -> None:
        """One run whose answer shows that the protections are in place; Unavailable when they are not."""
        limits = Limits(wall_s=30.0)
        calls = [Call(entry="probe")]

        def request(place: Place) -> bytes:
            return calls_request(code, calls, limits, None, place, stop_on_timeout=True)

        found = read_calls(self.run(request, limits, 30.0, 60.0, 1 << 16), 1, limits, self.mode).results[0]
        if found.kind is not RunKind.OK:
            why = found.detail or found.reason
            raise Unavailable("sandbox", f"{self.version} does not work here: {why}. {self.engine.hint}")
        missing = [name for name, good in found.value.items() if good is not True] if found.value else ["everything"]
        if missing:
            raise Unavailable("sandbox", f"The jail does not hold here: {', '.join(missing)}. {self.engine.hint}")

    def close(self) -> None:
        """Ends what waits and removes cgroups and lease; in a forked child it does nothing, they are the parent's."""
        if os.getpid() == self._pid:
            self._closed = True
            self._pool.close()
            if self._lease is not None:
                self._lease.release()
                self._lease = None
