"""Whole-number arithmetic that stands in a text: ``64 * 1024 ** 3``."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Literal

__all__ = ["parsed", "whole_number"]

_LARGEST = 1 << 64


def parsed(text: str, mode: Literal["exec", "eval"]) -> ast.AST | None:
    """The syntax tree of a Python text, None where it has none; nothing is run or printed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def whole_number(node: ast.AST, lookup: Callable[[str], int]) -> int:
    """The value of an arithmetic expression; ValueError where it has none.

    ``lookup`` gives the value of a name, or raises ValueError. Division is that of the shell,
    and of Python's ``//`` for numbers that are not negative.
    """
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return lookup(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -whole_number(node.operand, lookup)
    if not isinstance(node, ast.BinOp):
        raise ValueError("no arithmetic on whole numbers")
    left, right = whole_number(node.left, lookup), whole_number(node.right, lookup)
    if max(abs(left), abs(right)) > _LARGEST:
        raise ValueError("larger than anything that is counted")
    return _result(node.op, left, right)


def _result(operator: ast.operator, left: int, right: int) -> int:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.LShift) and 0 <= right <= 64:
        return left << right
    if isinstance(operator, ast.Pow) and 0 <= right <= 64:
        return int(left**right)
    if isinstance(operator, (ast.Div, ast.FloorDiv)) and right:
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    if isinstance(operator, ast.Mod) and right:
        return abs(left) % abs(right) * (1 if left >= 0 else -1)
    raise ValueError("no arithmetic on whole numbers")
