"""What operators want to know about, in the log "sluice_redis"."""

import logging
import math
import time
from typing import Dict, Tuple

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
    _log.warning("%s: %s: %s%s", limiter, message, error, f" ({left_out} more like it before)" if left_out else "")
