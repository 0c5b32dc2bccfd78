"""
What holds for every test.

Nothing is skipped. A test that does not run tells nobody anything, and one that is expected to fail hides the day on
which it starts to fail for another reason. So a skip or an expected failure, in a test or in a whole file, is turned
into a failure here. What a test needs is installed by `./run test`; what cannot be had everywhere is no test of ours.
"""

import ctypes
import gc
import os
import resource
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A run of the checks sets PYDDSI_EXAMPLES far higher. There is no deadline: machines differ.
settings.register_profile(
    "pyddsi",
    max_examples=int(os.environ.get("PYDDSI_EXAMPLES", "200")),
    deadline=None,
    print_blob=True,
)
settings.load_profile("pyddsi")


MUCH_BYTES = 1 << 30


@pytest.fixture(autouse=True, scope="module")
def little_memory() -> Iterator[None]:
    """
    Thousands of worlds, some megabytes each, leave holes that the C library keeps for later. The system gets them back,
    so that all tests together fit a small machine.
    """
    yield
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    if pages * resource.getpagesize() > MUCH_BYTES:
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none, and keeps no holes
        if trim is not None:
            trim(0)


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped, as it said itself."""
    said = report.longrepr
    text = said[2] if isinstance(said, tuple) else str(getattr(report, "wasxfail", said))
    return f"{report.nodeid}: no test may be skipped or expected to fail, but: {text}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test, or one that fails as it was said to, has failed."""
    report = yield
    if report.skipped or hasattr(report, "wasxfail"):
        report.longrepr = reason(report)
        report.outcome = "failed"
        vars(report).pop("wasxfail", None)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file that skips itself while it is read has failed."""
    report = yield
    if report.skipped:
        report.longrepr = reason(report)
        report.outcome = "failed"
    return report
