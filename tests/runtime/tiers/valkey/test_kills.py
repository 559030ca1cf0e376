"""kill -9 of engines that share a store: what was stored is there, half a chunk is a miss (R17)."""

from __future__ import annotations

from tests.runtime.tiers.kit import killed, wait_until
from tests.runtime.tiers.valkey.servers import needs_server, server


@needs_server
def test_engines_that_are_killed_lose_what_was_in_flight(tmp_path):
    """Two at a time, 60 kills in all, each engine checking first what those before it stored.

    The store is emptied now and then, so that kills leave chunks that are there in part.
    """
    with server(tmp_path) as running:
        facts = killed(running.url, kills=60, seed=4, max_mib=0, writers=2)
        wait_until(lambda: not running.num_tier_connections())

    assert facts["checked"] >= 20
    assert min(facts["stored"], facts["found"], facts["torn"]) > 0
    assert facts["wrong"] == facts["lost"] == facts["lost_at_the_end"] == 0
    assert facts["readable_at_the_end"] == 8
