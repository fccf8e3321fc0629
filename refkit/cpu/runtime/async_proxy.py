"""What the async proxy (`wgmma`, bulk copies) sees of ordinary accesses, and they of it."""


def fence_proxy(thread, site):
    """`fence.proxy.async`."""
