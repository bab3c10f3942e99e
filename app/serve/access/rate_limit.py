"""Rate limits for callers' requests: a token bucket for each caller, in this process only."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from app.serve.access.caller import Caller

#: The name of the policy in the headers (draft-ietf-httpapi-ratelimit-headers).
_POLICY: Final = '"requests"'
#: The maximum number of callers with a bucket, because users of a provider are not in the access file.
_MOST: Final = 20_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class RateLimit:
    """Counts requests by caller name."""

    def __init__(self) -> None:
        """Begin without requests."""
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: Caller, now_s: float) -> float:
        """Count a request and return 0, or return the seconds until the next one is allowed without counting it."""
        if not caller.rate:
            return 0.0
        bucket = self._filled(caller, now_s)
        if bucket.left < 1:
            return (1 - bucket.left) / caller.rate
        bucket.left -= 1
        return 0.0

    def headers(self, caller: Caller, now_s: float) -> dict[str, str]:
        """Return the rate-limit headers: the requests left, and the seconds until the bucket is full."""
        if not caller.rate:
            return {}
        left = self._filled(caller, now_s).left
        window_s, full_s = math.ceil(caller.burst / caller.rate), math.ceil((caller.burst - left) / caller.rate)
        return {
            "RateLimit-Policy": f"{_POLICY};q={caller.burst};w={max(1, window_s)}",
            "RateLimit": f"{_POLICY};r={int(left)};t={full_s}",
        }

    def _filled(self, caller: Caller, now_s: float) -> _Bucket:
        bucket = self._buckets.get(caller.name)
        if bucket is None:
            bucket = self._buckets[caller.name] = _Bucket(caller.burst, now_s)
            if len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
        bucket.left = min(caller.burst, bucket.left + max(0.0, now_s - bucket.at_s) * caller.rate)
        bucket.at_s = now_s
        return bucket
