"""The ``obj`` tier: objects in an S3-compatible store."""

from __future__ import annotations

from attrs import frozen

from kvengine.config.tiers.fs import StoredEvents
from kvengine.rules.options import option, refuses_unknown
from kvengine.rules.releases import Releases

__all__ = ["ObjTier", "ObjectStore"]

_UNTIL_OPTIONAL = Releases(until="0.26")
_SINCE_OPTIONAL = Releases(since="0.26")


@refuses_unknown
@frozen(kw_only=True, slots=False)
class ObjectStore:
    """How to reach an S3-compatible store; tried at the start."""

    bucket: str = option("Bucket.", examples=("kv-cache",))
    endpoint_override: str = option(
        "Host and port, or URL, of the store.", examples=("10.0.0.1:9000",)
    )
    access_key: str | None = option(
        "Access key; empty leaves it to the SDK.",
        default=None,
        default_text="empty (0.26 and later)",
        required=True,
        required_in=_UNTIL_OPTIONAL,
        examples=("",),
    )
    secret_key: str | None = option(
        "Secret key; empty leaves it to the SDK.",
        default=None,
        default_text="empty (0.26 and later)",
        required=True,
        required_in=_UNTIL_OPTIONAL,
        examples=("",),
    )
    session_token: str = option("Session token.", default="", vllm=_SINCE_OPTIONAL, examples=("",))
    region: str = option("Region.", default="", vllm=_SINCE_OPTIONAL, examples=("eu-central-1",))
    scheme: str = option("http or https.", default="http", examples=("https",))
    ca_bundle: str = option(
        "Path of the certificates to trust.", default="", examples=("/etc/ssl/ca.pem",)
    )


@refuses_unknown
@frozen(kw_only=True, slots=False)
class ObjTier(StoredEvents):
    """Objects in a bucket, moved by NIXL."""

    store_config: ObjectStore = option(
        "The store.",
        examples=({"bucket": "kv-cache", "endpoint_override": "10.0.0.1:9000"},),
    )
    prefix: str = option("Put before every object's key.", default="", examples=("team-a/",))
    io_threads: int | str = option(
        "Threads of NIXL's object plugin.", unit="threads", default=4, examples=(4,)
    )
