"""Findings of the sanitizers: recorded once per problem and pair of places."""

from numba import cuda

from .layout import THREAD_IDENTITY, THREAD_SANITIZER
from .primitives import words
from .shadow_layout import (
    FINDING_ACCESS,
    FINDING_ADDRESS,
    FINDING_CAPACITY,
    FINDING_DETAIL,
    FINDING_LIMIT,
    FINDING_OTHER_ACCESS,
    FINDING_OTHER_SITE,
    FINDING_OTHER_WHO,
    FINDING_PROBLEM,
    FINDING_SITE,
    FINDING_WHO,
    FINDING_WORDS,
    SANITIZER_FINDING_COUNT,
    SANITIZER_FINDINGS,
)


@cuda.jit(device=True)
def sanitizer_of(thread):
    return words(thread[THREAD_SANITIZER])


@cuda.jit(device=True)
def identity(thread):
    """The thread as a shadow cell holds it."""
    return thread[THREAD_IDENTITY]


@cuda.jit(device=True)
def record(thread, problem, site, address, access, other_who, other_site, other_access, detail, limit):
    """Appends a finding unless the same problem was found at the same two places."""
    sanitizer = sanitizer_of(thread)
    count = sanitizer[SANITIZER_FINDING_COUNT]
    for i in range(count):
        known = words(sanitizer[SANITIZER_FINDINGS] + i * (8 * FINDING_WORDS))
        same_places = known[FINDING_SITE] == site and known[FINDING_OTHER_SITE] == other_site
        if known[FINDING_PROBLEM] == problem and same_places:
            return
    if count < FINDING_CAPACITY:
        finding = words(sanitizer[SANITIZER_FINDINGS] + count * (8 * FINDING_WORDS))
        finding[FINDING_PROBLEM] = problem
        finding[FINDING_SITE] = site
        finding[FINDING_WHO] = identity(thread)
        finding[FINDING_ADDRESS] = address
        finding[FINDING_ACCESS] = access
        finding[FINDING_OTHER_WHO] = other_who
        finding[FINDING_OTHER_SITE] = other_site
        finding[FINDING_OTHER_ACCESS] = other_access
        finding[FINDING_DETAIL] = detail
        finding[FINDING_LIMIT] = limit
        sanitizer[SANITIZER_FINDING_COUNT] = count + 1
