"""Every row that vLLM answered is reproduced, field by field."""

from __future__ import annotations

import pytest

from tests.plan.rows import files, judged, results

CASES = [(file, name) for file in files() for name in results(file)]


@pytest.mark.parametrize(("file", "name"), CASES, ids=lambda case: case)
def test_plans_equal_what_vllm_answered(file, name):
    """Groups, pages, tensors, capacity, offload figures and refusals are vLLM's."""
    wrong = [f"{where}: {found}" for where, found in judged(file, name) if found]

    assert wrong == []
