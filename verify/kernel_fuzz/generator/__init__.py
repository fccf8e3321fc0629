"""Hypothesis strategies of programs that are free of races and of undefined behaviour by construction."""

from .programs import programs

__all__ = ["programs"]
