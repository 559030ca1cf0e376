"""Every problem code: what it means, an example and the way out. The one list of them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

__all__ = ["CODES", "Code"]


@frozen
class Code:
    """A stable word to match on.

    ``means`` says when it is reported, ``example`` is text that earns it, ``mend`` what to do.
    """

    name: str
    means: str
    example: str
    mend: str


_ALL = (
    Code(
        "syntax",
        "The file cannot be read as TOML, JSON or YAML: it does not exist, is no UTF-8 text or"
        " breaks the grammar. Nothing else can be said about it.",
        '{"kv_connector": "OffloadingConnector",}',
        "Mend the text at the place given; the check tells the rest afterwards.",
    ),
    Code(
        "duplicate-key",
        "One table gives the same key twice. Parsers disagree on which one counts.",
        '{"kv_role": "kv_both", "kv_role": "kv_producer"}',
        "Keep the one that is meant.",
    ),
    Code(
        "limit",
        "The file is larger, nests deeper or unfolds further than any real config: over 16 MiB,"
        " 100 levels, or 100,000 nodes behind YAML aliases.",
        "&a [*b, *b, *b, *b] (a YAML alias bomb)",
        "Check whether this is the file that you meant.",
    ),
    Code(
        "type",
        "The value has a type that the option does not take. In engine documents types are"
        " strict; in transfer configs this is said of values that make the release raise.",
        'cpu_bytes_to_use = "8GB"',
        "Write the value as the hint shows; where only one reading makes sense, --fix does it.",
    ),
    Code(
        "range",
        "The number is below the least or above the greatest that the option takes.",
        "blocks_per_chunk = 0",
        "Choose a number inside the range.",
    ),
    Code(
        "choice",
        "The text is none of the words that the option knows.",
        'kv_role = "both"',
        "Use one of the words that the message lists.",
    ),
    Code(
        "missing",
        "A required option is not given, or a file that the document names cannot be used.",
        '{"kv_connector": "OffloadingConnector"} (without kv_role)',
        "Add it.",
    ),
    Code(
        "unknown",
        "No release reads this key here. vLLM would start and silently ignore it.",
        "cpu_byte_to_use = 68719476736",
        "Correct the spelling or remove the key; keys of your own begin with x- in tables that"
        " allow them.",
    ),
    Code(
        "misplaced",
        "The key is known, but it belongs to another table: the outer config, the extra config,"
        " a child, a tier or the top level. Where it stands, nobody reads it.",
        '{"kv_connector": "...", "cpu_bytes_to_use": 68719476736}',
        "Move it to where the message says.",
    ),
    Code(
        "unread",
        "The key is read, but not by this release or this connector, or it has no effect there.",
        "blocks_per_chunk = 8 (with vLLM 0.24)",
        "Use what replaced it, choose the release with --vllm, or remove the key.",
    ),
    Code(
        "exclusive",
        "Two options are given that exclude each other; the engine refuses the pair.",
        "block_size = 256 and blocks_per_chunk = 8",
        "Keep one of them.",
    ),
    Code(
        "requires",
        "The option works only together with another one, which is not given.",
        "an option that needs a companion, alone",
        "Give the companion as well, or remove the option.",
    ),
    Code(
        "ignored",
        "The option has no effect as the others stand.",
        "max_tracker_size = 1000 (without store_threshold)",
        "Set what it depends on, or remove it.",
    ),
    Code(
        "overridden",
        "Another option, a flag or a variable says something else and wins.",
        "cpu_bytes_to_use in the config and --kv-offloading-size on the command line",
        "Say it in one place.",
    ),
    Code(
        "deprecated",
        "The option still works or is still accepted, and will go.",
        "VLLM_USE_PACKED_HMA_KV_CACHE=1",
        "Use what the message names; --fix or kvengine migrate carries the meaning over.",
    ),
    Code(
        "renamed",
        "The name is an old one; this release knows it by another.",
        'kv_connector = "SharedStorageConnector" (now ExampleConnector)',
        "Use the new name.",
    ),
    Code(
        "removed",
        "This release refuses the option or the connector that older ones accepted.",
        "kv_ip (from vLLM 0.32 on)",
        "Remove it, or use what replaced it.",
    ),
    Code(
        "coerced",
        "The release converts the value. Severity tells how well that goes: info where the text"
        " is read as it was meant, warning where it is surprising, error where it is read the"
        " other way round.",
        'offload_prompt_only = "false" (a text that is not empty is true)',
        "Write the value in its own type.",
    ),
    Code(
        "connector",
        "The connector, spec or tier is not known, or cannot be used in this release.",
        'kv_connector = "OffloadConnector"',
        "Correct the name; for a class outside vLLM, give its module path.",
    ),
    Code(
        "conflict",
        "Two statements contradict each other: of one document, of a prefill and decode pair, or"
        " of config and environment.",
        "an old variable that says on and a new option that says off",
        "Decide which one is right and remove the other.",
    ),
    Code(
        "placeholder",
        "The value holds a variable or template that is filled in elsewhere; what it will be is"
        " not known and was not guessed.",
        'engine_id = "$POD_NAME"',
        "Check the rendered file, or define the variable in the same text.",
    ),
    Code(
        "geometry",
        "Block sizes, chunk sizes and the model's groups do not go together.",
        "block_size = 256 for a model with blocks of 16 and 24 tokens",
        "Use blocks_per_chunk, or a size that every group divides.",
    ),
    Code(
        "capacity",
        "Something does not fit: the model's longest request into the KV memory, one chunk into"
        " the host budget.",
        'memory = "1 GiB" for a model that needs 12 GiB',
        "Give more memory, or lower max_model_len.",
    ),
    Code(
        "layout",
        "The memory layout cannot be had for this model and release, or something is lost by it.",
        'layout = "BLHNC" (with vLLM 0.28)',
        "Leave the layout to the release, or take one that the message names.",
    ),
    Code(
        "known-issue",
        "A fault of this release that such a config runs into: a crash, corruption, or an option"
        " that does nothing.",
        "a combination that one release is known to break on",
        "Follow the hint: mostly another release, or another setting.",
    ),
    Code(
        "unchecked",
        "Keys of a connector, spec or tier outside vLLM: they are accepted as they are.",
        'kv_connector_module_path = "my.connector"',
        "Nothing; see the documentation of whoever wrote it.",
    ),
)

CODES: Mapping[str, Code] = {code.name: code for code in _ALL}
"""Name -> code, in the order of the reference."""
