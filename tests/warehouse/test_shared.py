"""A shared lake: Postgres catalog, data in a folder or in an S3-compatible store, several real processes.

Starts a Postgres server of its own in a temporary folder, as an unprivileged user; skipped where the binaries or
the extras are missing.
"""

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from schemas.errors import RecordError, Unavailable, UserError
from schemas.ids import digest
from schemas.trajectory import Part, Step, Trajectory
from schemas.vocabulary import PartType, Source
from tests.warehouse.filled import STAMP, fill, make_tasks, make_trajectories
from warehouse.address import resolve
from warehouse.blobs import Blobs
from warehouse.checkpoint import checkpoint, latest
from warehouse.counts import check_counts
from warehouse.lake import Lake
from warehouse.maintenance import examine, maintain
from warehouse.query import Door, query
from warehouse.rebuild import rebuild
from warehouse.requests import Answer, Claimed, Held, RequestCache

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("writer.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def binaries() -> Path | None:
    packaged = sorted((path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")), reverse=True)
    path = shutil.which("postgres")
    places = [*packaged, *([Path(path).parent] if path else [])]
    return next((place for place in places if (place / "initdb").is_file()), None)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running Postgres; it refuses to run as root, so root drops to `nobody` for it."""
    where = binaries()
    if where is None:
        pytest.skip("no Postgres binaries")
    psycopg = pytest.importorskip("psycopg")
    pytest.importorskip("duckdb_extension_postgres_scanner")
    folder = Path(f"/tmp/gristmill-pg-{os.getpid()}")
    folder.mkdir()
    as_user = {"user": "nobody"} if os.getuid() == 0 else {}
    if as_user:
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    port = free_port()
    subprocess.run(
        [where / "initdb", "-D", folder / "data", "-U", "grist", "--auth=trust", "--no-sync"],
        check=True,
        capture_output=True,
        cwd="/",
        **as_user,  # type: ignore[arg-type]
    )
    process = subprocess.Popen(
        [where / "postgres", "-D", folder / "data", "-p", str(port), "-k", str(folder), "-c", "fsync=off"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        **as_user,  # type: ignore[arg-type]
    )
    try:
        for _ in range(300):
            try:
                psycopg.connect(f"postgresql://grist@127.0.0.1:{port}/postgres", connect_timeout=2).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


@pytest.fixture
def address(server: int, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    import psycopg

    name = f"lake_{digest(request.node.nodeid)[:12]}"
    with psycopg.connect(f"postgresql://grist@127.0.0.1:{server}/postgres", autocommit=True) as con:
        con.execute(f"DROP DATABASE IF EXISTS {name}")
        con.execute(f"CREATE DATABASE {name}")
    return f"postgresql://grist@127.0.0.1:{server}/{name}?data={tmp_path / 'shared'}"


def test_a_closed_lake_leaves_no_session(address: str, server: int) -> None:
    import psycopg

    def sessions() -> list[str]:
        found = "SELECT query FROM pg_stat_activity WHERE datname = %s"
        with psycopg.connect(f"postgresql://grist@127.0.0.1:{server}/postgres", autocommit=True) as con:
            return [row[0] for row in con.execute(found, [urlsplit(address).path[1:]]).fetchall()]

    # Both lakes are still referred to: what ends their sessions is `close`.
    with Lake.open(address) as lake, lake.leases.acquire("verify", "f", "b") or nullcontext():
        fill(lake)
        with lake.at(lake.snapshot()) as earlier:
            earlier.sql("select count(*) from tasks")
    deadline = time.monotonic() + 10
    while (left := sessions()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def test_several_processes_make_one_lake(address: str) -> None:
    with pytest.raises(UserError, match="There is no lake"):
        Lake.open(address, read_only=True)
    command = [sys.executable, str(SCRIPT), "append", address, "0", "2"]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert query(address, "select count(*) as n from tasks")["n"].to_pylist() == [20]


@pytest.fixture
def shared(address: str) -> Iterator[Lake]:
    lake = Lake.open(address)
    yield lake
    lake.close()


def test_a_shared_lake_does_what_a_local_one_does(shared: Lake) -> None:
    ids = fill(shared)
    assert shared.append(STAMP, {"trajectories": make_trajectories(20)}) == {"trajectories": 0}
    assert shared.trajectories(ids) == make_trajectories(20)
    assert shared.sql("select n_kept, n_pending from funnel").to_pylist() == [{"n_kept": 9, "n_pending": 4}]
    assert check_counts(shared, "run1") == []
    earlier = shared.snapshot()
    shared.append(STAMP, {"tasks": make_tasks(5, start=100)})
    with shared.at(earlier) as then:
        assert then.sql("select count(*) as n from tasks")["n"].to_pylist() == [20]
    assert query(shared.address, "select count(*) as n from tasks")["n"].to_pylist() == [25]
    assert examine(shared) == []


def test_writing_processes_lose_and_repeat_nothing(shared: Lake) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), "append", shared.address, str(start), "8"], stdout=subprocess.PIPE, text=True
        )
        for start in (0, 0, 1000)
    ]
    outputs = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    for table in ("tasks", "trajectories"):
        found = shared.sql(f"select count(*) as n, count(distinct id) as ids from {table}").to_pylist()
        assert found == [{"n": 160, "ids": 160}]
    added = [int(row.split()[2]) for text in outputs for row in text.splitlines() if row.startswith("appended")]
    assert sum(added) == 160


def test_leases_on_a_shared_lake(shared: Lake) -> None:
    with Lake.open(shared.address) as other:
        lease = shared.leases.acquire("verify", "f", "b")
        assert lease is not None
        assert other.leases.acquire("verify", "f", "b") is None
        assert shared.append(STAMP, {"tasks": make_tasks(3)}, lease) == {"tasks": 3}
        lease.release()
        taken = other.leases.acquire("verify", "f", "b", ttl_s=0.5)
        assert taken is not None
        other.leases._held.clear()
        time.sleep(0.6)
        assert shared.leases.acquire("verify", "f", "b") is not None


def test_the_request_cache_of_a_shared_lake(shared: Lake) -> None:
    first, second = RequestCache.for_lake(shared), RequestCache.for_lake(shared)
    keys = [digest(str(number)) for number in range(200)]

    async def work() -> None:
        assert await first.claim(keys[0]) == Claimed(keys[0])
        assert isinstance(await second.claim(keys[0]), Held)
        assert await first.record(keys[0], b"\x00answer") == b"\x00answer"
        assert await second.wait(keys[0]) == Answer(b"\x00answer")
        assert await second.record(keys[0], b"late") == b"\x00answer"

    asyncio.run(work())
    assert all(isinstance(found, Claimed) for found in first.claim_many(keys[1:]).values())
    first.record_many(dict.fromkeys(keys[1:], b"x"))
    assert second.count() == 200
    first.close()
    second.close()


def test_maintenance_checkpoint_and_rebuild_into_a_new_database(shared: Lake, server: int) -> None:
    import psycopg

    fill(shared)
    shared.append(STAMP, {"tasks": make_tasks(5, start=100)})
    assert maintain(shared).merged_files > 0
    checkpoint(shared)
    state = latest(shared)
    assert state is not None
    assert state.snapshot == shared.snapshot()
    with pytest.raises(UserError, match="already holds rows"):
        rebuild(shared.address)
    with psycopg.connect(f"postgresql://grist@127.0.0.1:{server}/postgres", autocommit=True) as con:
        con.execute("DROP DATABASE IF EXISTS rebuilt")
        con.execute("CREATE DATABASE rebuilt")
    moved = f"postgresql://grist@127.0.0.1:{server}/rebuilt?data={shared.where.base}"
    assert rebuild(moved).way == "data files"
    with Lake.open(moved) as lake:
        assert lake.sql("select n_kept from funnel")["n_kept"].to_pylist() == [9]
        assert lake.tasks([task.id for task in make_tasks(20)]) == make_tasks(20)


def test_the_query_door_of_a_shared_lake(shared: Lake, tmp_path: Path) -> None:
    fill(shared)
    attacks = [
        "select * from postgres_query('__ducklake_metadata_lake', 'select 1')",
        "select * from postgres_scan('', 'gristmill', 'leases')",
        "select * from __ducklake_metadata_lake.gristmill.leases",
        "select * from postgres_execute('__ducklake_metadata_lake', 'drop table ducklake_snapshot')",
        "call postgres_execute('__ducklake_metadata_lake', 'drop table ducklake_snapshot')",
        "select * from read_text('/etc/passwd')",
        f"copy tasks to '{tmp_path / 'out.csv'}'",
        "delete from tasks",
    ]
    with Door(shared.address) as door:
        for text in attacks:
            with pytest.raises(UserError):
                door.query(text)
        assert door.query("select count(*) as n from tasks")["n"].to_pylist() == [20]


def test_a_server_that_is_down_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="catalog_unreachable"):
        Lake.open(f"postgresql://grist@127.0.0.1:{free_port()}/lake?data={tmp_path}")


def test_addresses_carry_no_password() -> None:
    for address in (
        "postgresql://grist:marked@host/lake?data=/x",
        "postgresql://grist@host/lake?password=marked&data=/x",
        "postgresql://grist@host/lake?data=s3://key:marked@bucket/x",
    ):
        with pytest.raises(UserError, match="carries a password") as caught:
            resolve(address)
        assert "marked" not in str(caught.value)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The endpoint of an S3-compatible store with the bucket `grist`."""
    pytest.importorskip("moto.server")
    pytest.importorskip("duckdb_extension_httpfs")
    import boto3
    from moto.server import ThreadedMotoServer

    monkeypatch.setenv("STORE_KEY", "some-key")
    monkeypatch.setenv("STORE_SECRET", "some-secret")
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="some-key",
        aws_secret_access_key="some-secret",
    ).create_bucket(Bucket="grist")
    yield endpoint
    running.stop()


def looks_at(sha256: str) -> Trajectory:
    [row] = make_trajectories(1, 1000)
    image = Part(type=PartType.IMAGE, sha256=sha256, media_type="image/png")
    return msgspec.structs.replace(row, steps=(Step(source=Source.USER, content=(image,)), *row.steps))


def test_a_lake_in_an_object_store(server: int, store: str, address: str, tmp_path: Path) -> None:
    file = tmp_path / "lake.toml"
    file.write_text(
        f'catalog = "{address.partition("?")[0]}"\ndata = "s3://grist/lake"\n'
        f'[s3]\nendpoint = "{store}"\nkey_env = "STORE_KEY"\nsecret_env = "STORE_SECRET"\n'
    )
    with Lake.open(file) as lake:
        ids = fill(lake)
        assert lake.trajectories(ids) == make_trajectories(20)
        assert lake.append(STAMP, {"tasks": make_tasks(25)}) == {"tasks": 5}
        assert maintain(lake).merged_files > 0
        blobs, data = Blobs(lake), os.urandom(6_000_000)
        sha256 = blobs.put(data)
        assert blobs.put(data) == sha256 and blobs.get(sha256) == data and blobs.stored() == {sha256}
        assert any(sha256 in trouble for trouble in examine(lake)), "no row names it"
        with pytest.raises(RecordError, match="blob_missing"):
            blobs.get("0" * 64)
        lake.append(STAMP, {"trajectories": [looks_at(sha256)]})
        assert checkpoint(lake).startswith("s3://grist/lake/_checkpoint/")
        state = latest(lake)
        assert state is not None
        assert {table.name: sum(f.rows for f in table.files) for table in state.tables}["tasks"] == 25
        assert examine(lake) == []
    with Door(file) as door:
        assert door.query("select n_kept from funnel")["n_kept"].to_pylist() == [9]
        for text in ("select * from read_text('s3://grist/other.txt')", "select * from duckdb_secrets()"):
            with pytest.raises(UserError):
                door.query(text)
    assert not (tmp_path / "data").exists()
