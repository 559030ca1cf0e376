"""One clear error for every vLLM that the integration does not fit."""

import pickle

import pytest

import kvengine.integrations.vllm as integration
from kvengine.integrations.vllm.versions import VLLMVersionError, require
from kvengine.rules.releases import Release


@pytest.mark.parametrize("text", ["0.26.0", "0.28.1", "0.32.0+cpu", "0.33.0rc2"])
def test_a_release_between_the_first_and_the_last_is_taken(text):
    """Patch releases, candidates and local builds count as their minor release."""
    assert require(text) == Release(0, int(text[2:4]))


@pytest.mark.parametrize("text", ["0.25.1", "0.34.0", "1.0.0"])
def test_another_release_is_refused_by_name(text):
    """The message names what is installed and what would fit."""
    with pytest.raises(VLLMVersionError) as caught:
        require(text)

    assert str(caught.value) == (
        f"kvengine.integrations.vllm works with vLLM 0.26 to 0.33, but vLLM {text} is installed\n"
        "  hint: install one of these releases, or take the connector out of --kv-transfer-config"
    )
    assert pickle.loads(pickle.dumps(caught.value)).found == text


def test_a_missing_vllm_is_said_when_the_spec_is_asked_for():
    """Here vLLM is not installed: the module imports, the spec does not."""
    with pytest.raises(VLLMVersionError, match="but vLLM is not installed"):
        _ = integration.KVEngineOffloadingSpec
