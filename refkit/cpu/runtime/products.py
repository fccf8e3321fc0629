"""Groups of `wgmma` products: what is under way, from their issue to the wait that ends them."""


def fence(thread, site):
    """`wgmma.fence`."""


def commit_group(thread, site):
    """`wgmma.commit_group`."""


def wait_group(thread, site, pending):
    """`wgmma.wait_group`."""
