"""Runs one test of a repository and says how it ended; loaded as text inside a jail, see repo_tests.py."""

# mypy: ignore-errors


def _pytest(test_id):
    import pytest

    class Seen:
        def __init__(self):
            self.phases = []

        def pytest_runtest_logreport(self, report):
            self.phases.append((report.nodeid, report.when, report.outcome, hasattr(report, "wasxfail")))

    seen = Seen()
    pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", ".", "-o", "addopts=", test_id], plugins=[seen])
    wanted = [(test_id, when, "passed", False) for when in ("setup", "call", "teardown")]
    if not seen.phases:
        return "missing"
    return "passed" if seen.phases == wanted else "failed"


def _unittest(test_id):
    import unittest

    suite = unittest.defaultTestLoader.loadTestsFromName(test_id)
    if suite.countTestCases() != 1:
        return "missing"
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    clean = not (
        result.failures or result.errors or result.skipped or result.unexpectedSuccesses or result.expectedFailures
    )
    return "passed" if result.testsRun == 1 and clean else "failed"


def run(test_id, runner):
    """passed, failed or missing."""
    return _pytest(test_id) if runner == "pytest" else _unittest(test_id)
