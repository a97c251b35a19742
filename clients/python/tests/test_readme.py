"""Every code block of README.md runs, and prints what its comments say."""

import contextlib
import io
import re
import subprocess
import sys

from servers import ROOT

README = (ROOT / "clients" / "python" / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_python_blocks(server):
    """One after another, as a reader types them."""
    names = {}
    for language, code in BLOCKS:
        if language != "python":
            continue
        wanted = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)
        assert len(wanted) == code.count("print(")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code.replace("Redis()", f"Redis(port={server.port})"), "README.md", "exec"), names)
        assert printed.getvalue().splitlines() == wanted
    environ = {"REMOTE_ADDR": "192.0.2.7", "PATH_INFO": "/", "example.customer": "acme", "example.plan": "free"}
    assert names["application"](environ, lambda *args: None) == [b"hello"]


def test_shell_blocks(tmp_path):
    """The package of the checkout installs, with its scripts."""
    commands = [code.split() for language, code in BLOCKS if language == "sh"]
    assert commands == [["pip", "install", "sluice-redis"]]
    options = ["--quiet", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "install", "./clients/python", *options], cwd=ROOT, check=True)
    assert (tmp_path / "sluice_redis" / "scripts" / "list_log_v1.lua").exists()


def test_editable(tmp_path):
    """An editable install takes the scripts of its checkout."""
    options = ["--quiet", "--no-deps", "--ignore-installed", "--prefix", str(tmp_path)]
    command = [sys.executable, "-m", "pip", "install", *options, "-e", "./clients/python"]
    subprocess.run(command, cwd=ROOT, check=True)
    (source,) = (path.read_text().strip() for path in tmp_path.rglob("*.pth"))
    code = "from sluice_redis import _manifest; print(_manifest.scripts()['list_log_v1'].path)"
    command = [sys.executable, "-c", code]
    env = {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
    out = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout.decode()
    assert out.strip() == str(ROOT / "scripts" / "list_log_v1.lua")


def test_no_other_blocks():
    assert {language for language, _ in BLOCKS} == {"python", "sh"} and len(BLOCKS) > 8
