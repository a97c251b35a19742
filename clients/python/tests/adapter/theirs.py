"""Runs the tests of moving windows in the source distribution of limits against sluice_redis.limits. Their addresses
become those of our storages and server, and nothing else is changed: theirs.py <folder of the distribution>."""

import os
import re
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from servers import Server  # noqa: E402

import sluice_redis.limits  # noqa: E402, F401

FIXED = "asks for fixed windows, which are refused"
CANNOT = {
    "test_storage_string": "wants limits' own class",
    "test_expiry_incr": FIXED,
    "test_expiry_acquire_entry": FIXED,
    "test_expiry_acquire_sliding_window_entry": "asks for a sliding window counter, which is an estimate",
    "test_incr_custom_amount": FIXED,
    "test_storage_reset": FIXED,
    "test_storage_clear": FIXED,
}


PASSED, FAILED = [], {}


@pytest.fixture(scope="session")
def docker_services():
    """What starts containers: the server runs already."""
    return Mock()


def pytest_runtest_logreport(report):
    name = re.sub(r"^.*::(\w+)\[.*", r"\1", report.nodeid)
    if report.outcome != "passed":
        FAILED[report.nodeid] = name
    elif report.when == "call":
        PASSED.append(name)


def main(folder):
    server = Server()
    try:
        for path in Path(folder, "tests").rglob("*.py"):
            text = re.sub(r"redis://localhost:7379", f"sluice+redis://localhost:{server.port}", path.read_text())
            path.write_text(text.replace('"localhost", 7379', f'"localhost", {server.port}'))
        os.chdir(folder)
        chosen = "not uds and (TestMovingWindow or TestConcreteStorages or test_moving_window)"
        files = ["test_strategy.py", "aio/test_strategy.py", "test_storage.py", "aio/test_storage.py", "integration"]
        pytest.main(["-q", "-p", "no:cacheprovider", "-o", "addopts=",
                     "-o", "asyncio_default_fixture_loop_scope=function", "-m", "redis", "-k", chosen,
                     *(f"tests/{file}" for file in files)], plugins=[sys.modules[__name__]])  # fmt: skip
    finally:
        server.stop()
    wrong = [f"{test} fails" for test, name in FAILED.items() if name not in CANNOT]
    wrong += [f"{name} passes: take it from the list" for name in {*CANNOT} & {*PASSED}]
    wrong += [f"{name} is no test" for name in {*CANNOT} - {*PASSED, *FAILED.values()}]
    print(*wrong, *(f"{name} does not hold: it {reason}" for name, reason in CANNOT.items()), sep="\n")
    print(f"limits: {len(PASSED)} tests pass, {len(FAILED)} cannot")
    return len(wrong) or not PASSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
