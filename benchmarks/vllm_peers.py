"""vLLM's own offloading specs, able to run on CPU: only the copies are replaced.

vLLM's manager, policies and sizing are untouched; its worker wants a GPU, so this one copies with
torch. Rows are vLLM's: every key takes one as wide as all canonical tensors together.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

__all__ = ["PeerSpec"]


class PeerSpec(CPUOffloadingSpec):
    """``CPUOffloadingSpec`` but for the kernel."""

    def get_worker(self, kv_caches: Any) -> Any:
        if self._worker is None:
            self._worker = PeerWorker(kv_caches, self.num_chunks, self.blocks_per_chunk)
        return self._worker


class PeerWorker(OffloadingWorker):
    """Copies at once, tensor by tensor, with advanced indexing."""

    def __init__(self, kv_caches: Any, num_chunks: int, per_chunk: int) -> None:
        self._device = [entry.tensor for entry in kv_caches.tensors]
        self._groups = kv_caches.group_data_refs
        self._per_chunk = per_chunk
        self._host = [
            torch.zeros((num_chunks, per_chunk, entry.page_size_bytes), dtype=torch.int8)
            for entry in kv_caches.tensors
        ]
        self._done: list[Any] = []

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        self._copy(job_id, src_spec, dst_spec.block_ids, to_host=True)
        return True

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        self._copy(job_id, dst_spec, src_spec.block_ids, to_host=False)
        return True

    def get_finished(self) -> list[Any]:
        done, self._done = self._done, []
        return done

    def wait(self, job_ids: set[int]) -> None:
        return

    def _copy(self, job: int, device: Any, slots: Any, *, to_host: bool) -> None:
        started = time.perf_counter()
        num_bytes = block_at = slot_at = 0
        host_slots = torch.from_numpy(slots).long()
        for group, count in enumerate(device.group_sizes):
            if not count:
                continue
            first = device.block_indices[group]
            order = torch.arange(first, first + count)
            blocks = torch.from_numpy(device.block_ids[block_at : block_at + count]).long()
            chunk = order // self._per_chunk - first // self._per_chunk
            rows, inside = host_slots[slot_at + chunk], order % self._per_chunk
            for reference in self._groups[group]:
                page = self._device[reference.tensor_idx]
                slot = self._host[reference.tensor_idx]
                width = reference.page_size_bytes
                if to_host:
                    slot[rows, inside, :width] = page[blocks, :width]
                else:
                    page[blocks, :width] = slot[rows, inside, :width]
                num_bytes += count * width
            block_at += count
            slot_at += int(chunk[-1]) + 1
        seconds = time.perf_counter() - started
        self._done.append(TransferResult(job, True, num_bytes, seconds))
