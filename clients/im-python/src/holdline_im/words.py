"""The protocol's words (IM 8): why a session ends, why something was not done, and what follows."""

from . import im_pb2 as pb

#: Reasons with which a client does not come back by itself.
LASTING = {"bad_credentials", "not_authorized", "name_invalid", "bad_method", "taken_over",
           "admin_kick", "expired", "malformed", "too_large", "out_of_order", "unknown_version"}
#: Faults after which the same request may succeed.
PASSING = {"busy", "store_full", "store_failed", "rate_limited"}


class ImError(Exception):
    """Something was not done. `code` is the protocol's word (IM 8.2), or `disconnected`,
    `queue_full`; `reason` is the operator's text for people, mostly empty."""

    def __init__(self, code: str, reason: str = "") -> None:
        super().__init__(f"{code}: {reason}" if reason else code)
        self.code, self.reason = code, reason


class Ended(Exception):
    """The client will not come back by itself: `why` is a word of IM 8.1, or `closed`,
    `server_not_proved`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def reason(number: int) -> str:
    """The word of a reason; an unknown one is treated as 0 (IM 8.1)."""
    known = pb.Reason.values()
    return pb.Reason.Name(number if number in known else 0)[len("REASON_"):].lower()


def fault(number: int) -> str:
    """The word of a fault."""
    known = pb.Fault.values()
    return pb.Fault.Name(number if number in known else 0)[len("FAULT_"):].lower()
