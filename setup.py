"""
The two things about the build that pyproject.toml cannot say: which script describes the extension to cffi, and that
the wheel fits every Python from 3.11 on (cffi compiles to the limited API, but the wheel's name has to be told).
"""

from setuptools import setup

setup(
    cffi_modules=["pyddsi/_build.py:ffi"],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
