"""What surrounds a transfer config: flags, environment, the model, the other engine of a pair."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve

from kvengine.config.advisories import Scene, advice
from kvengine.config.connectors import CONNECTOR, CONNECTORS, OUTSIDE, Connector
from kvengine.config.flags import effective, flag, is_on
from kvengine.config.traits import traits_of_config
from kvengine.document.changes import at as value_at
from kvengine.document.changes import has
from kvengine.errors import Drop, Fix, Path, Problem, show
from kvengine.rules.check import check
from kvengine.rules.judge import nearest
from kvengine.rules.registry import named
from kvengine.rules.releases import Release
from kvengine.rules.shapes import fields_of

__all__ = ["advice_for", "check_source"]

_EXTRA = "kv_connector_extra_config"
_OFFLOADING = ("OffloadingConnector", "SimpleCPUOffloadConnector")


def check_source(
    config: Mapping[str, Any] | None,
    *,
    release: Release,
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    traits: frozenset[str] | None = None,
) -> list[Problem]:
    """What is to be said of a transfer config because of where it is used.

    ``config`` is the given transfer config, None where there is none (``--kv-offloading-size``
    may make one). ``flags`` maps ``--name`` to its text, True if it has none; ``env`` maps names to
    texts; both None where the command line is not known. Paths of findings lead through the
    transfer config, or are ``flag:--name`` or ``env:NAME``. What :func:`check` says is left out.
    """
    known_flags, known_env = flags or {}, env or {}
    problems = [*_flags(known_flags, release), *_environment(known_env, release)]
    problems += _overridden(config, known_flags, known_env, release)
    ends_up = effective(config, known_flags, known_env, release)
    scene = Scene(config=ends_up or {}, release=release, flags=flags, env=env, traits=traits)
    problems += advice(scene)
    if ends_up is not None and flags is not None:
        problems += _block_size(ends_up, flags)
        problems += _hybrid(ends_up, flags, release)
    seen: dict[tuple[str, Path, str], Problem] = {}
    for problem in problems:
        seen.setdefault((problem.code, problem.path, problem.message), problem)
    return [*seen.values()]


_FLAGS: Mapping[str, Path] = {
    "--tensor-parallel-size": ("parallel", "tensor"),
    "--pipeline-parallel-size": ("parallel", "pipeline"),
    "--data-parallel-size": ("parallel", "data"),
    "--decode-context-parallel-size": ("parallel", "decode_context"),
    "--prefill-context-parallel-size": ("parallel", "prefill_context"),
    "--nnodes": ("parallel", "nodes"),
    "--enable-prefix-caching": ("cache", "prefix_caching"),
    "--block-size": ("cache", "tokens_per_block"),
    "--speculative-config": ("speculative",),
}
"""Flags of the engine, and where an engine document says the same."""


def advice_for(document: Mapping[str, Any], release: Release) -> list[Problem]:
    """What :func:`check_source` says of an engine document; paths lead through the document."""
    transfer, model = document.get("kv_transfer"), document.get("model")
    if not isinstance(transfer, Mapping):
        return []
    flags = {name: value_at(document, at) for name, at in _FLAGS.items() if has(document, at)}
    speculative = flags.pop("--speculative-config", None)
    if isinstance(speculative, Mapping):
        flags["--speculative-config"] = str(speculative.get("method"))
    hybrid = value_at(document, ("cache", "hybrid")) if has(document, ("cache", "hybrid")) else None
    if hybrid is False:
        flags["--disable-hybrid-kv-cache-manager"] = True
    elif hybrid is True:
        flags["--no-disable-hybrid-kv-cache-manager"] = True
    config = model.get("config") if isinstance(model, Mapping) else None
    traits = traits_of_config(config) if isinstance(config, Mapping) else None
    found = check_source(transfer, release=release, flags=flags, traits=traits)
    return [evolve(problem, path=_in_document(problem.path)) for problem in found]


def _in_document(path: Path) -> Path:
    head = str(path[0]) if path else ""
    if head.startswith("flag:"):
        return _FLAGS.get(head[5:], ("cache", "hybrid"))
    return ("kv_transfer", *path)


def _flags(flags: Mapping[str, Any], release: Release) -> Iterator[Problem]:
    """Values of flags, and flags that undo each other."""
    if not any(name.startswith("--") for name in flags):
        return
    from kvengine.config.command_line import Flags

    given = {name: flag(flags, name) for name in fields_of(Flags) if flag(flags, name) is not None}
    given = {name: str(value) for name, value in given.items() if value is not True}
    given.pop("--kv-transfer-config", None)
    for problem in check(Flags, given, mode="release", release=release):
        if problem.code != "coerced" or problem.severity != "info":
            yield evolve(problem, path=(f"flag:{problem.path[0]}",), fix=None)
    if flag(flags, "--kv-offloading-size") is None and flag(flags, "--kv-offloading-backend"):
        says = "has no effect unless --kv-offloading-size is given"
        yield Problem("ignored", ("flag:--kv-offloading-backend",), says, "", "warning")
    dotted = sorted(name for name in flags if name.startswith("--kv-transfer-config."))
    if dotted and flag(flags, "--kv-transfer-config") is not None:
        says = f"is replaced as a whole by {dotted[0]}: what only the JSON has is lost"
        hint = "write all of it as JSON, or all of it as dotted flags"
        yield Problem("overridden", ("flag:--kv-transfer-config",), says, hint)
    for name in dotted:
        key = name.removeprefix(f"--kv-transfer-config.{_EXTRA}.").rstrip("+")
        if key.startswith("lmcache."):
            says = "has dots in its name, which a dotted flag turns into nested tables"
            yield Problem("unread", (_EXTRA, key), says, "write the transfer config as JSON")
    size = flag(flags, "--kv-offloading-size")
    if isinstance(size, str) and re.search(r"\$\{?\w*GB\b", size):
        says = f"is in GiB, and {size} by its name in GB: 7 % more than meant"
        hint = "divide by 1.0737, or give the variable GiB"
        yield Problem("capacity", ("flag:--kv-offloading-size",), says, hint, "warning")


def _environment(env: Mapping[str, str], release: Release) -> Iterator[Problem]:
    """Variables that mean something else, or nothing, in this release."""
    if not env:
        return
    from kvengine.config.environment import Variables

    declared = fields_of(Variables)
    given = {name: text for name, text in env.items() if name in declared and "$" not in text}
    for problem in check(Variables, given, mode="release", release=release):
        if problem.code == "coerced" and problem.severity == "info":
            continue
        if problem.code == "unread" and declared[str(problem.path[0])].option.deprecated:
            problem = _packed(problem)
        yield evolve(problem, path=(f"env:{problem.path[0]}",), fix=None)
    for name in env:
        if name.startswith("LM_CACHE_"):
            wanted = name.replace("LM_CACHE_", "LMCACHE_", 1)
            hint = f"did you mean {nearest(wanted, declared) or wanted}?"
            says = "is read by nothing: LMCache's variables begin with LMCACHE_"
            yield Problem("unknown", (f"env:{name}",), says, hint)
    yield from _json_text(env)


def _packed(problem: Problem) -> Problem:
    says = "is read by no release of vLLM"
    hint = "use kv_connector_extra_config.enable_cross_layers_blocks, in 0.24 to 0.28"
    return Problem("deprecated", problem.path, says, hint, "warning")


def _json_text(env: Mapping[str, str]) -> Iterator[Problem]:
    import json

    text = env.get("LMCACHE_EXTRA_CONFIG")
    if text and "$" not in text:
        try:
            json.loads(text)
        except ValueError as error:
            says = f"is no JSON: {error}"
            hint = "quote names and use true, false and null; single quotes around all of it"
            yield Problem("syntax", ("env:LMCACHE_EXTRA_CONFIG",), says, hint)


def _overridden(
    config: Mapping[str, Any] | None,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    release: Release,
) -> Iterator[Problem]:
    """What ``--kv-offloading-size`` does to a given config, and the environment to it."""
    if flag(flags, "--kv-offloading-size") is None:
        return
    ends_up = effective(config, flags, env, release) or {}
    name = ends_up["kv_connector"]
    if name == "SimpleCPUOffloadConnector":
        says = "makes --kv-offloading-backend native mean SimpleCPUOffloadConnector"
        hint = "unset it to get OffloadingConnector"
        yield Problem("overridden", ("env:VLLM_USE_SIMPLE_KV_OFFLOAD",), says, hint, "warning")
    config = config or {}
    given = config.get("kv_connector")
    if given is not None and given != name:
        says = f"is overridden: --kv-offloading-size makes it {name}, with kv_role kv_both"
        hint = "to have both, make them children of a MultiConnector and drop the flag"
        yield Problem("overridden", ("kv_connector",), says, hint)
    elif config.get("kv_role") not in (None, "kv_both"):
        says = "is overridden: --kv-offloading-size makes it kv_both"
        yield Problem("overridden", ("kv_role",), says, "drop one of the two", "warning")
    extra = config.get(_EXTRA)
    if isinstance(extra, Mapping) and "cpu_bytes_to_use" in extra and given in (None, name):
        path: Path = (_EXTRA, "cpu_bytes_to_use")
        says = "is overridden by --kv-offloading-size"
        fix = Fix("remove it", (Drop(path),), safe=False)
        yield Problem("overridden", path, says, "keep one of the two", "warning", fix)
    if config.get("kv_connector_module_path") is not None:
        says = f"still decides where {name} is looked for, although --kv-offloading-size set it"
        yield Problem("conflict", ("kv_connector_module_path",), says)


def _block_size(config: Mapping[str, Any], flags: Mapping[str, Any]) -> Iterator[Problem]:
    """Tokens of a chunk are whole blocks of the device."""
    extra = config.get(_EXTRA)
    if config.get("kv_connector") != "OffloadingConnector" or not isinstance(extra, Mapping):
        return
    try:
        chunk = int(extra.get("block_size") or 0)
        block = int(flag(flags, "--block-size") or 0)
        block *= int(flag(flags, "--decode-context-parallel-size") or 1)
    except (TypeError, ValueError):
        return
    if chunk > 0 and block > 0 and chunk % block:
        says = f"is {chunk}, not a multiple of the {block} tokens of a block"
        hint = f"the next one is {-(-chunk // block) * block}; or use blocks_per_chunk"
        yield Problem("geometry", (_EXTRA, "block_size"), says, hint)


def _hybrid(
    config: Mapping[str, Any], flags: Mapping[str, Any], release: Release
) -> Iterator[Problem]:
    """The hybrid KV manager, kept on by force, needs a connector that serves it."""
    if is_on(flags, "--disable-hybrid-kv-cache-manager") is not False:
        return
    for path, name in _without_hybrid(config, release, ()):
        says = "does not support the hybrid KV manager, which is kept on by force"
        hint = "drop --no-disable-hybrid-kv-cache-manager"
        yield Problem("conflict", (*path, "kv_connector"), f"is {show(name)} and {says}", hint)


def _without_hybrid(
    config: Mapping[str, Any], release: Release, path: Path
) -> Iterator[tuple[Path, str]]:
    name = config.get("kv_connector")
    extra = config.get(_EXTRA)
    classes = OUTSIDE if CONNECTOR.opened(config) else CONNECTORS
    facts = named(classes, name) if isinstance(name, str) else None
    if isinstance(facts, Connector) and not facts.is_hybrid(release):
        yield path, str(name)
    children = extra.get("connectors") if isinstance(extra, Mapping) else None
    for index, child in enumerate(children if isinstance(children, list) else ()):
        if isinstance(child, Mapping):
            yield from _without_hybrid(child, release, (*path, _EXTRA, "connectors", index))
