"""Benchmarks of the source tree: ``python -m benchmarks NAME``.

Nothing here is shipped in the wheel, and this file imports nothing: the thread counts have to be
set before numpy is loaded, which is the first thing that ``benchmarks.__main__`` does.
"""
