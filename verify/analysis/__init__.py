"""What `analyze` measures of a kernel, without a GPU: its memory traffic on the CPU executor, and what it compiles to.

representative.py   one mid-size case of a spec
traffic.py          that case under the memory model: bank passes and sectors per source line
toolchain.py        PTX by NVVM and machine code by ptxas, where these are installed
resources.py        registers, spills, shared memory and occupancy per architecture
fragments.py        its warp-matrix instructions, and who holds what in their fragments
subject.py          all of it for one spec, as one record
validate.py         the memory model against a GPU's own counters, pattern by pattern (`patterns.py`)
"""
