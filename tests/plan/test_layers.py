"""Layers described by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from kvengine.config.layers import (
    ChunkedLayers,
    FullLayers,
    LatentLayers,
    StateLayers,
    WindowLayers,
)
from kvengine.errors import PlanError
from kvengine.plan.make import make_plan
from kvengine.plan.models.handmade import described_by_hand
from kvengine.plan.specs import Attention, Latent
from tests.plan.engines import engine, hf_config


def described(runs):
    return described_by_hand({}, runs)


def test_runs_repeat_in_order():
    """Names are counted over all runs."""
    found = described(
        [
            FullLayers(kind="full", heads=8, head_size=64),
            WindowLayers(kind="window", count=2, heads=8, head_size=64, window=128),
            LatentLayers(kind="mla", name="draft.{i}", width=576),
        ]
    )

    assert [layer.name for layer in found.layers] == [
        "model.layers.0.self_attn.attn",
        "model.layers.1.self_attn.attn",
        "model.layers.2.self_attn.attn",
        "draft.3",
    ]
    assert found.layers[1].cache == Attention(heads=8, head_size=64, head_size_v=64, window=128)
    assert found.layers[3].cache == Latent(width=576)


def test_values_may_be_narrower_than_keys():
    """``head_size_v`` for itself."""
    run = ChunkedLayers(kind="chunked", heads=2, head_size=128, head_size_v=96, chunk=8192)

    assert described([run]).layers[0].cache == Attention(
        heads=2, head_size=128, head_size_v=96, chunk=8192
    )


def test_a_hybrid_by_hand():
    """A recurrent state makes the model a hybrid."""
    runs = [
        FullLayers(kind="full", heads=8, head_size=64),
        StateLayers(kind="state", count=3, state_bytes=1 << 20),
    ]

    assert described(runs).hybrid
    assert not described(runs[:1]).hybrid


def test_layers_beyond_reason_are_refused():
    """No document takes all memory of the machine that plans it."""
    with pytest.raises(PlanError) as caught:
        described([FullLayers(kind="full", count=10**9, heads=8, head_size=64)])

    assert str(caught.value) == "model.layers describes more than 10000 layers [limit]"


def test_a_model_by_hand_plans_like_its_config():
    """Llama 3.1 8B, described, has the plan of its config.json."""
    config = engine()
    if not hasattr(config.model, "layers"):
        pytest.skip("the document has no [[model.layers]] yet")
    runs = [FullLayers(kind="full", count=32, heads=8, head_size=128)]
    model = evolve(config.model, config={}, layers=runs)

    assert make_plan(evolve(config, model=model)) == make_plan(config)
    assert hf_config("llama-3.1-8b")["num_key_value_heads"] == 8
