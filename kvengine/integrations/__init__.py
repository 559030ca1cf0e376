"""kvengine inside other engines."""
