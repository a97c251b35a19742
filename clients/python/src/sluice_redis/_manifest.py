"""The scripts, as manifest.json describes them."""

import functools
import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Sequence, Tuple, Union

from ._errors import ArgumentError, shown


class Script(NamedTuple):
    """A script: what it takes, and where its source is."""

    name: str  # "list_log_v1"
    sha1: str
    path: Any  # a Path, or of a zip what is like one
    entry: Mapping[str, Any]  # of the manifest

    def source(self) -> bytes:
        return bytes(self.path.read_bytes())

    def maximum(self, *arguments: str) -> int:
        """The maximum of the first of these arguments that the script has; 2^53 if it has none."""
        fields = list(self.entry["arguments"]) + list(self.entry.get("group", {}).get("arguments", ()))
        return next((int(field["max"]) for field in fields if field["name"] in arguments), 2**53)

    def words(self, values: Mapping[str, object], group: Sequence[Mapping[str, object]] = ()) -> Tuple[bytes, ...]:
        """ARGV, from values by their names in the manifest."""
        words = [values[field["name"]] for field in self.entry["arguments"]]
        for one in group:
            words += [one[field["name"]] for field in self.entry["group"]["arguments"]]
        return tuple(encode(word) for word in words)


def encode(word: object) -> bytes:
    """A word of a command: text in UTF-8, or an integer in decimal digits. Floats are refused, never sent."""
    if isinstance(word, (bytes, str)):
        return word if isinstance(word, bytes) else word.encode()
    if isinstance(word, int) and not isinstance(word, bool):
        return b"%d" % word
    raise ArgumentError("", "argument", shown(word), "a str, bytes or int")


def packed(words: Sequence[bytes]) -> bytes:
    """A command as it is sent."""
    return b"*%d\r\n%b" % (len(words), _bulk(words))


def _bulk(words: Sequence[bytes]) -> bytes:
    return b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


_known = functools.lru_cache(1000)(_bulk)  # what is the same in many calls


def evalsha(script: Script, keys: Sequence[Union[str, bytes]], args: Tuple[bytes, ...], id: str) -> bytes:
    """A call of a script as it is sent. id is what only this call has among its arguments."""
    head = _known((b"EVALSHA", script.sha1.encode(), b"%d" % len(keys)))
    tail = _bulk(args) if id else _known(args)
    return b"*%d\r\n%b%b%b" % (3 + len(keys) + len(args), head, _bulk([encode(key) for key in keys]), tail)


@functools.lru_cache(maxsize=None)
def scripts() -> Dict[str, Script]:
    """The scripts of this package, by name. It may be a zip; those of an editable install are in its checkout."""
    own, found = files("sluice_redis") / "scripts", {}
    folder: Any = own if own.is_dir() else Path(__file__).resolve().parents[4] / "scripts"
    for entry in json.loads((folder / "manifest.json").read_text("utf-8"))["scripts"]:
        name = entry["file"][: -len(".lua")]
        found[name] = Script(name, entry["sha1"], folder / entry["file"], entry)
    return found
