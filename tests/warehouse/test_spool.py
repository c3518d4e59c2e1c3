"""A spool gives what the table gives, whatever the order, and names what is not there."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemas.errors import LakeError, Unavailable
from schemas.rows import Verdict
from schemas.vocabulary import VerdictKind
from tests.warehouse.filled import STAMP, make_trajectories
from warehouse import spool
from warehouse.lake import Lake

BY_ID = ("trajectories", "id")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of 16 rows, from 32 rows on."""
    monkeypatch.setattr(spool, "LEAST", 32)
    monkeypatch.setattr(spool, "_RANGE", 16)
    monkeypatch.setattr(spool, "_BATCH", 20)


@pytest.mark.usefixtures("small")
def test_rows_come_as_from_the_table_without_asking_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_trajectories(150)
    for start in range(0, 150, 30):
        lake.append(STAMP, {"trajectories": rows[start : start + 30]})
    # Another order than that of the appends, and not all of them.
    wanted = random.Random(3).sample(rows, 120)
    ids = [row.id for row in wanted]
    made: list[spool.Spool] = []
    dealt = spool.Spool.rows
    monkeypatch.setattr(spool.Spool, "rows", lambda self, keys: (made.append(self), dealt(self, keys))[1])
    with lake.spooled({BY_ID: ids}):
        for start in range(0, 120, 25):
            assert lake.trajectories(ids[start : start + 25]) == wanted[start : start + 25]
        assert lake.trajectories([ids[7], ids[7], ids[100]]) == [wanted[7], wanted[7], wanted[100]]
        # A row that is not among them is found in the table.
        other = next(row for row in rows if row.id not in set(ids))
        assert lake.trajectories([ids[0], other.id]) == [wanted[0], other]
        folder = made[0].folder
        assert len(list(folder.iterdir())) == 8
    assert not folder.exists()
    before = len(made)
    assert lake.trajectories(ids[:3]) == wanted[:3] and len(made) == before


@pytest.mark.usefixtures("small")
def test_what_is_not_in_the_table_is_named(lake: Lake) -> None:
    rows = make_trajectories(20)
    lake.append(STAMP, {"trajectories": rows})
    ids = [*(row.id for row in rows), *(f"unknown{n:02}" for n in range(40))]
    with lake.spooled({BY_ID: ids}):
        assert lake.trajectories(ids[:20]) == rows
        with pytest.raises(LakeError, match="1 of 2 ids are not in trajectories, such as unknown30"):
            lake.trajectories([ids[0], "unknown30"])
        with pytest.raises(LakeError, match="2 of 2"):
            lake.trajectories(ids[-2:])


def test_a_few_rows_are_not_worth_it(lake: Lake, tmp_path: Path) -> None:
    rows = make_trajectories(5)
    lake.append(STAMP, {"trajectories": rows})
    with lake.spooled({BY_ID: [row.id for row in rows]}):
        assert not lake._spools.held
        assert lake.trajectories([rows[3].id]) == [rows[3]]


@pytest.mark.usefixtures("small")
def test_a_disk_without_room_is_named_and_the_next_try_works(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_trajectories(40)
    lake.append(STAMP, {"trajectories": rows})
    ids = [row.id for row in rows]
    # A device on which every write ends for want of room.
    monkeypatch.setattr(spool.Spool, "_file", lambda *_: "/dev/full")
    with lake.spooled({BY_ID: ids}), pytest.raises(Unavailable, match="disk_full"):
        lake.trajectories(ids[:1])
    monkeypatch.undo()
    assert not lake._spools.held
    assert lake.trajectories(ids) == rows


@pytest.mark.usefixtures("small")
def test_rows_beside_trajectories_come_as_from_the_table(lake: Lake) -> None:
    ids = [f"t{number:03}" for number in range(60)]
    # None of the first, one of the second, two of the third, and so on; the newest append first.
    rows = [
        Verdict(id=f"v{key}{n}", trajectory_id=key, verifier="exact", kind=VerdictKind.PASS, reward=1.0)
        for at, key in enumerate(ids)
        for n in range(at % 3)
    ]
    other = STAMP._replace(fingerprint="another")
    for by, part in ((STAMP, rows[1::2]), (other, rows[::2])):
        lake.append(by, {"verdicts": part})
    order = random.Random(5).sample(ids, 60)
    plain = [lake.verdicts(ids), lake.verdicts(ids, [other.fingerprint]), lake.verdicts(ids, [])]
    assert sum(map(len, plain[0].values())) == 60 and sum(map(len, plain[1].values())) == 30
    with lake.spooled({("verdicts", "trajectory_id"): order}):
        for by, expected in zip((None, [other.fingerprint], []), plain, strict=True):
            found = {}
            for start in range(0, 60, 25):
                found |= lake.verdicts(order[start : start + 25], by)
            assert found == expected


@pytest.mark.usefixtures("small")
def test_each_thread_has_its_own(lake: Lake) -> None:
    rows = make_trajectories(40)
    lake.append(STAMP, {"trajectories": rows})
    with lake.spooled({BY_ID: [row.id for row in rows]}), ThreadPoolExecutor(1) as other:
        assert lake.trajectories([rows[3].id]) == [rows[3]]
        assert lake._spools.held[BY_ID].filled
        assert other.submit(lambda: dict(lake._spools.held)).result() == {}
        assert other.submit(lake.trajectories, [rows[3].id]).result() == [rows[3]]
