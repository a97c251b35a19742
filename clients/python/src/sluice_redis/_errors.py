"""The errors, all of them SluiceError (a denial is not an error), and the log "sluice_redis" of what operators want to
know about."""

import logging
import math
import time
from datetime import timedelta
from typing import Any, Dict, Optional, Sequence, Tuple, Union

_PLAIN = (str, bytes, int, float, timedelta, type(None))


def shown(value: object) -> str:
    """A value for a message. Of what is not plain only its type: the repr of a client has the password."""
    is_plain = all(isinstance(one, _PLAIN) for one in (value if isinstance(value, (list, tuple)) else [value]))
    return repr(value) if is_plain else type_of(value)


def type_of(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")


class SluiceError(Exception):
    """The base of all errors of this package."""

    def __reduce__(self) -> Tuple[Any, ...]:
        """For pickle, as where a pool of processes returns it: past __init__, whose arguments are others."""
        return Exception.__new__, (type(self), *self.args), self.__dict__


class ArgumentError(SluiceError, ValueError):
    """An argument is wrong: nothing was decided, and nothing was written.

    It is found before anything is sent, or by the script (BADARG). argument is its name, want is what would be right.
    """

    def __init__(self, name: str, argument: str, value: str, want: str, text: Optional[str] = None) -> None:
        self.argument, self.value, self.want = argument, value, want
        said = text or (f"{argument} {value}: want {want}" if value else f"bad {argument}: want {want}")
        super().__init__(f"{name}: {said}" if name else said)


class ExceedsLimitError(ArgumentError):
    """More permits at once than could ever be granted: more than the limit, or than one call may ask for."""


class StateError(SluiceError):
    """A key holds a value that the script cannot read. Nothing was written. reset() removes the value.

    code is WRONGTYPE (another Redis type) or BADSTATE (a value that the script did not write).
    """

    def __init__(self, script: str, keys: Sequence[Union[str, bytes]], code: str, text: str) -> None:
        self.script, self.keys, self.code, self.text = script, tuple(keys), code, text
        super().__init__(f"{script}: {code} {text} (keys {', '.join(map(str, keys))})")


class UnavailableError(SluiceError):
    """Redis did not decide, and nothing was charged. __cause__ says why."""


class NotLoadedError(UnavailableError):
    """The server does not have the script, and this user may not load it."""


class BusyError(UnavailableError):
    """No connection came free: this process asks more at once than its connections carry, while Redis does answer. No
    policy decides then. Give the client more connections (max_connections), or start fewer calls at once."""


class OutcomeUnknownError(SluiceError):
    """The command was sent and no reply came: it was charged once or not at all. Asking again may charge again,
    except with the same id. __cause__ says why there is no reply. id is the request id, if the script takes one."""

    def __init__(self, script: str, keys: Sequence[Union[str, bytes]], id: str, why: str) -> None:
        self.script, self.keys, self.id = script, tuple(keys), id
        super().__init__(f"{script}: outcome unknown: {why}")


class WaitError(SluiceError):
    """Waiting would take longer than max_wait, or would never end. Nothing is booked."""


class NotReservedError(SluiceError):
    """Redis does not know the id of a settlement: it was not reserved, or its time is over. Nothing was changed."""


class SlotLostError(SluiceError):
    """A slot was lost: another holder may have it, and its work has to stop."""


def helps(error: SluiceError, has_ids: bool) -> bool:
    """Whether another call may succeed, and cannot charge twice."""
    return has_ids if isinstance(error, OutcomeUnknownError) else isinstance(error, UnavailableError)


_log = logging.getLogger("sluice_redis")
logged: Dict[Tuple[str, str], Tuple[float, int]] = {}  # when, and how many were left out since


def warn(limiter: str, message: str, error: object) -> None:
    """Logs a message about a limiter, the same one once a minute at most. Keys and subjects do not belong here."""
    now, (last, left_out) = time.monotonic(), logged.get((limiter, message), (-math.inf, 0))
    if now - last < 60:
        logged[limiter, message] = last, left_out + 1
        return
    if len(logged) > 1000:  # names are few
        logged.clear()
    logged[limiter, message] = now, 0
    why = str(error).split(" (keys ")[0]  # without those of a StateError
    _log.warning("%s: %s: %s%s", limiter, message, why, f" ({left_out} more like it before)" if left_out else "")
