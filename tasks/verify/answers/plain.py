"""Plain data with its Python types, written as JSON; runs inside jails only, appended to code as text.

An array is a list; everything else that JSON lacks is an object with one key: t tuple, s set, z frozenset, d dict
(pairs, so that keys may be anything), b bytes (hex), c complex, f a float that is no number or infinite.
It also holds the stand-in for a candidate's function that a test can be run against without the candidate.
"""

# mypy: ignore-errors


class _GmMore(BaseException):
    """The test asks for a call whose value is not known yet."""


def _gm_write(value):
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if value - value == 0 else {"f": float.__repr__(value)}
    for kind, key in ((tuple, "t"), (set, "s"), (frozenset, "z")):
        if isinstance(value, kind):
            return {key: [_gm_write(item) for item in value]}
    if isinstance(value, list):
        return [_gm_write(item) for item in value]
    if isinstance(value, dict):
        return {"d": [[_gm_write(key), _gm_write(item)] for key, item in value.items()]}
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if isinstance(value, complex):
        return {"c": [repr(value.real), repr(value.imag)]}
    raise ValueError("not plain data: " + type(value).__name__)


def _gm_read(value):
    if isinstance(value, list):
        return [_gm_read(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((key, inner),) = value.items()
    if key == "d":
        return {_gm_read(name): _gm_read(item) for name, item in inner}
    if key == "b":
        return bytes.fromhex(inner)
    if key == "c":
        return complex(float(inner[0]), float(inner[1]))
    if key == "f":
        return float(inner)
    return {"t": tuple, "s": set, "z": frozenset}[key](_gm_read(item) for item in inner)


class _GmAnything:
    """Takes part in any expression of a test, so that one walk through it finds every call that it makes."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return True

    def __int__(self):
        return 0

    def __float__(self):
        return 0.0

    def __hash__(self):
        return 0

    def __getitem__(self, key):
        return self

    def __contains__(self, key):
        return True

    __len__ = __index__ = __int__
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: True
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = lambda self, other: self
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __floordiv__ = lambda self, other: self
    __neg__ = __abs__ = __invert__ = __round__ = lambda self, *rest: self


def _gm_call(payload, entry):
    """In the candidate's jail: one call, its arguments and its value as plain data."""
    args, kwargs = _gm_read(payload)
    target = globals()[entry]
    return _gm_write(target(*args, **kwargs))


def _gm_stand_in(table, asked):
    """A function that gives the known values, and asks for the others (with table None: for all of them)."""
    import json

    def stand_in(*args, **kwargs):
        payload = _gm_write((args, kwargs))
        if table is None:
            asked.append(payload)
            return _GmAnything()
        found = table.get(json.dumps(payload))
        if found is None:
            asked.append(payload)
            raise _GmMore
        kind, value = found
        if kind != "ok":
            raise RuntimeError(value)
        return _gm_read(value)

    return stand_in


def _gm_walk(source, check, entry):
    """In the tests' jail: which calls the tests make. Assertions are evaluated and never fail."""
    import ast

    class Lenient(ast.NodeTransformer):
        def visit_Assert(self, node):
            return ast.copy_location(ast.Expr(node.test), node)

    asked = []
    space = globals()
    exec(compile(ast.fix_missing_locations(Lenient().visit(ast.parse(source))), "tests.py", "exec"), space)  # noqa: S102
    space[entry] = stand_in = _gm_stand_in(None, asked)
    try:
        space[check](stand_in)
    except Exception:
        # A test that needs a real value here is walked further once the values so far are known.
        return asked
    return asked


def _gm_test(check, entry, known):
    """In the tests' jail: runs `check` against a stand-in that knows the values of calls made elsewhere.

    known: [payload, kind, value] per call.
    """
    import json

    asked = []
    table = {json.dumps(payload): (kind, value) for payload, kind, value in known}
    space = globals()
    # Some tests call the function by its name.
    space[entry] = stand_in = _gm_stand_in(table, asked)
    try:
        space[check](stand_in)
    except _GmMore:
        return {"status": "more", "calls": asked}
    except BaseException as error:
        return {"status": "failed", "detail": f"{type(error).__name__}: {error}"[:300]}
    return {"status": "passed"}
