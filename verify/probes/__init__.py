"""Probes: experiments that find out, on whatever runs, who holds what in a fragment and how a tensor core adds up."""

from refkit.verify.probes.probe import Probe, ProbeResult

__all__ = ["Probe", "ProbeResult"]
