"""Advice on a network: which remedy of the catalogue helps there, by how much, and with which commands."""

from airtcp.advice.ranking import Advice, advise

__all__ = ["Advice", "advise"]
