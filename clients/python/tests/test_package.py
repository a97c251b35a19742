"""What is in the package, and its types. The tests run against the package as it is installed, not the source."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servers import ROOT

import sluice_redis
from sluice_redis import ArgumentError, _manifest

PACKAGE = Path(sluice_redis.__file__).parent


def test_installed():
    assert "site-packages" in PACKAGE.parts and (PACKAGE / "py.typed").exists()


def test_sums():
    """Every script and the manifest is in the package, with the sums of the repository."""
    sums = dict(reversed(line.split()) for line in (ROOT / "scripts" / "SHA256SUMS").read_text().splitlines())
    names = {name for name in sums if "/" not in name and name.endswith(".lua") or name == "manifest.json"}
    assert names == {path.name for path in (PACKAGE / "scripts").iterdir()} and len(names) > 15
    for name in names:
        assert hashlib.sha256((PACKAGE / "scripts" / name).read_bytes()).hexdigest() == sums[name], name
    for script in _manifest.scripts().values():
        assert hashlib.sha1(script.source()).hexdigest() == script.sha1


def test_zip(tmp_path):
    """The scripts are found where the package is no folder."""
    archive = shutil.make_archive(str(tmp_path / "app"), "zip", PACKAGE.parent, PACKAGE.name)
    code = "import sluice_redis as s; print(s.__file__, len(s._manifest.scripts()['list_log_v1'].source()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": archive},
                          stdout=subprocess.PIPE)  # fmt: skip
    file, size = done.stdout.decode().split()
    assert file.startswith(archive) and int(size) == (ROOT / "scripts" / "list_log_v1.lua").stat().st_size


def test_digits_never_floats():
    assert [_manifest.encode(word) for word in (60_000_000, 2**53, "é", b"\xff")] == [
        b"60000000", b"9007199254740992", "é".encode(), b"\xff",
    ]  # fmt: skip
    for word in (60 * 1e6, True, None):
        with pytest.raises(ArgumentError):
            _manifest.encode(word)


def mypy(tmp_path, text):
    sample = tmp_path / "sample.py"
    sample.write_text(text)
    # redis-py had no types before 5.
    options = ["--strict", "--ignore-missing-imports", "--no-incremental", "--cache-dir", str(tmp_path)]
    command = [sys.executable, "-m", "mypy", *options, str(sample)]
    return subprocess.run(command, stdout=subprocess.PIPE, cwd=tmp_path).stdout.decode()


def test_types(tmp_path):
    text = Path(__file__).with_name("sample.py").read_text()
    assert mypy(tmp_path, text).startswith("Success")
    wrong = 'codes.allow(7)\ncodes.allow("ada").grantd\nlimits.gcra("x", permits=1.5, window=timedelta(1))\n'
    wrong += 'limits.quota("x", 1, "hour")\nhttp.ASGI(app, charges)\nhttp.WSGI(app, codes, shaddow=True)\n'
    found = mypy(tmp_path, text + wrong)
    assert found.count("error:") == 6 and '"grantd"' in found, found
