"""Hypothesis strategies of programs that are free of races and of undefined behaviour by construction."""

from .programs import NODES, programs

__all__ = ["NODES", "programs"]
