"""Eight processes on one key: no window ever holds more than the limit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT, WINDOW_US, PROCESSES = 100, 500_000, 8


def most_in_a_window(times):
    """The largest number of times in any half-open interval of one window."""
    times, first, most = sorted(times), 0, 0
    for last, moment in enumerate(times):
        while times[first] <= moment - WINDOW_US:
            first += 1
        most = max(most, last - first + 1)
    return most


def test_the_audit_itself():
    assert most_in_a_window([0, 499_999, 500_000]) == 2 and most_in_a_window([5, 5, 5]) == 3


@pytest.mark.parametrize("kind", ["list_log", "slice_ring"])
def test_audit(server, row, kind):
    command = [sys.executable, str(Path(__file__).with_name("worker.py")), str(server.port), kind, "2.5"]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    results = [json.loads(worker.communicate(timeout=50)[0]) for worker in workers]
    times = [moment for result in results for moment in result["times"]]
    most = most_in_a_window(times)
    row["audit"] = ", ".join(filter(None, [row.get("audit"), f"{kind} at most {most} of {LIMIT}"]))
    assert most <= LIMIT
    assert len(times) > LIMIT and sum(result["denied"] for result in results) > 0
