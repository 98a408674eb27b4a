"""My limits: what a server accepts, and what a client sends."""

import threading

import grpc


# The course's version: yours takes its place when it has passed its check.
class Shed(grpc.ServerInterceptor):
    """Lets at most `limit` calls into the servicer at once, and refuses all others."""

    def __init__(self, limit):
        self.free = threading.Semaphore(limit)

    def intercept_service(self, continuation, details):
        handler = continuation(details)

        def answer(request, context):
            if not self.free.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
            try:
                return handler.unary_unary(request, context)
            finally:
                self.free.release()

        return grpc.unary_unary_rpc_method_handler(
            answer, handler.request_deserializer, handler.response_serializer
        )


# The course's version: yours takes its place when it has passed its check.
def retry_config(attempts, first_pause_s, tokens, ratio):
    """Return a service config that retries UNAVAILABLE within a budget."""
    policy = {
        "maxAttempts": attempts,
        "initialBackoff": f"{first_pause_s}s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return {
        "methodConfig": [{"name": [{}], "retryPolicy": policy}],
        "retryThrottling": {"maxTokens": tokens, "tokenRatio": ratio},
    }


# The course's version: yours takes its place when it has passed its check.
def full_jitter(failures, first_s, most_s, draw):
    """Return any part of the pause that doubles, so that callers do not retry together."""
    return draw() * min(most_s, first_s * 2.0 ** (failures - 1))
