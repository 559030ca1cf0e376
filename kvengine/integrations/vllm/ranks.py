"""vLLM's view of the transfers: the worker that the connector drives in each rank."""

from __future__ import annotations

import logging
from typing import Any

from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult

from kvengine.integrations.vllm.region import Region
from kvengine.integrations.vllm.worker import Transfers

__all__ = ["KVEngineOffloadingWorker"]

_log = logging.getLogger(__name__)


class KVEngineOffloadingWorker(OffloadingWorker):  # type: ignore[misc]
    """Copies of one rank. A store that fails becomes a miss; a load that fails is said so."""

    def __init__(self, transfers: Transfers, region: Region, *, writes: bool) -> None:
        self._transfers = transfers
        self._region = region
        self._writes = writes
        self._skipped: list[int] = []

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        """Begin to copy blocks of the device to host memory."""
        if not self._writes:  # rank 0 stores the bytes that all ranks have
            self._skipped.append(job_id)
            return True
        self._transfers.submit(job_id, dst_spec.ticket, dst_spec.places, src_spec, stores=True)
        return True

    def submit_load(
        self, job_id: int, src_spec: Any, dst_spec: Any, expedited: bool = False
    ) -> bool:
        """Begin to copy chunks to blocks of the device; ``expedited`` ones go first (0.33)."""
        self._transfers.submit(
            job_id, src_spec.ticket, src_spec.places, dst_spec, stores=False, first=expedited
        )
        return True

    def get_finished(self) -> list[Any]:
        """Jobs that are through since the last call."""
        skipped, self._skipped = self._skipped, []
        return [
            *(TransferResult(job_id=job, success=True) for job in skipped),
            *(
                TransferResult(
                    job_id=result.job,
                    success=result.fit,
                    transfer_size=result.num_bytes,
                    transfer_time=result.seconds,
                )
                for result in self._transfers.finished()
            ),
        ]

    def wait(self, job_ids: set[int]) -> None:
        """Block until these jobs are through."""
        self._transfers.wait(job_ids)

    def shutdown(self) -> None:
        """Finish what is queued, and give the memory back."""
        self._transfers.close()
        self._region.close()
